"""Numbers as figures print them: as many decimals as their size asks for, and a true minus sign."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tombola.verifying.summary import fixed

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_DIGITS = 6


def digits_for(values: Iterable[float]) -> int:
    """Decimals that all of ``values`` get, by the largest of them: 82.4, 0.87, 0.031; none where all are whole."""
    sizes = [abs(value) for value in values if math.isfinite(value)]
    largest = max(sizes, default=0.0)
    if largest >= 1000 or all(size == int(size) for size in sizes):
        return 0
    return 1 if largest > 1 else min(MOST_DIGITS, max(2, 1 - math.floor(math.log10(largest))))


def number(value: float, digits: int) -> str:
    """``−2.3``: with the minus sign that is as wide as a digit, and never ``−0.0``."""
    return fixed(value, digits).replace("-", "−")
