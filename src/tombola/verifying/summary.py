"""What several seeds say together: mean, std (ddof 1, everywhere), median, best and n (SPEC 2.5)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from tombola.errors import UsageError


@dataclass(frozen=True)
class Summary:
    """The numbers a table prints for one set of runs. ``std`` is None for one run: it is unknown, not zero.

    ``median`` and ``best`` are None where only a printed mean ± std is known, ``n`` is then 0.
    """

    mean: float
    std: float | None
    median: float | None
    best: float | None
    n: int

    def text(self, digits: int = 1) -> str:
        """``82.4 ± 0.5``, or ``82.4`` where the std is unknown."""
        if self.std is None:
            return fixed(self.mean, digits)
        return f"{fixed(self.mean, digits)} ± {fixed(self.std, digits)}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return self.text()


def summarize(scores: Sequence[float]) -> Summary:
    """Summarise the scores of several seeds. Sums are exact, so equal scores have std 0.0."""
    return _summarized(tuple(checked_scores(scores)))


@lru_cache(maxsize=4096)
def _summarized(values: tuple[float, ...]) -> Summary:
    # Exact sums are slow, and the tables of a study ask for the same scores many times.
    return Summary(
        mean=statistics.mean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        median=statistics.median(values),
        best=max(values),
        n=len(values),
    )


def printed(mean: float, std: float | None = None) -> Summary:
    """A summary of which only the printed ``mean ± std`` is known (the papers' tables)."""
    (mean,) = checked_scores([mean])
    if std is not None and not (math.isfinite(std) and std >= 0):
        raise UsageError(f"a printed std must be a number of 0 or more, not {std}", where=f"{mean} ± {std}")
    return Summary(mean=mean, std=None if std is None else float(std), median=None, best=None, n=0)


def checked_scores(scores: Sequence[float], name: str = "scores") -> list[float]:
    """Finite floats, at least one; anything else is refused with its position."""
    values = [float(score) for score in scores]
    if not values:
        raise UsageError("there are no scores to judge", where=name, todo="run at least one seed")
    for position, value in enumerate(values):
        if not math.isfinite(value):
            raise UsageError(f"a score is {value}: it cannot be compared", where=f"{name}[{position}]")
    return values


def fixed(value: float, digits: int) -> str:
    """``value`` with ``digits`` decimals and never ``-0.0``."""
    return f"{round(value, digits) + 0.0:.{digits}f}"
