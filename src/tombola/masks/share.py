"""Shares as people write them: ``0.7`` or ``70%``. A bare 70 could mean either and is refused."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from tombola.errors import UsageError


def read_share(text: str, where: str) -> float:
    """A share between 0 and 1, both excluded; read in decimals, for shares stand in identities."""
    text = text.strip()
    percent = text.endswith("%")
    try:
        number = Decimal(text.removesuffix("%").strip())
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise UsageError(f"'{text}' is no share", where=where, todo="give 0.7 or 70%")
    share = number / 100 if percent else number
    if not percent and number >= 1:
        percents, shares = f"{number.normalize():f}%", f"{(number / 100).normalize():f}"
        raise UsageError(f"{text} is not a share", where=where, todo=f"write {shares} or {percents}")
    if not 0 < share < 1:
        raise UsageError(
            f"a share of {text} leaves everything or nothing",
            where=where,
            todo="between 0 and 1: 0.7 or 70%",
        )
    return float(share)
