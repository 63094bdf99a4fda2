"""Where the phases of super tickets begin and end, read off the curves (SPEC 3.3).

I up to the best level; II until winning tickets are no better than random ones; III after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Phase = Literal["I", "II", "III"]
#: Means that differ by less are the same number.
ROUND_OFF = 1e-9


@dataclass(frozen=True)
class Borders:
    """``best``: the level that phase I ends at, 0 where no ticket beats the full model (there is no phase I then).
    ``lost``: the first level from there on whose winning tickets are no better than random ones; None: none is."""

    best: float
    lost: float | None

    def phase(self, level: float) -> Phase | None:
        """The phase of a level; None for the full model, which is before all phases."""
        if level == 0:
            return None
        if self.lost is not None and level >= self.lost and level > self.best:
            return "III"
        return "I" if level <= self.best else "II"


def borders(winning: Mapping[float, float], random: Mapping[float, float]) -> Borders:
    """``winning`` and ``random``: mean scores by level; level 0 of ``winning`` is the full model. Ties take the level
    with fewer weights. Without random tickets the border of phase III is unknown."""
    top = max(winning.values())
    best = max(level for level, score in winning.items() if score >= top - ROUND_OFF)
    lost = [
        level
        for level in sorted(random)
        if level >= best and level > 0 and winning[level] <= random[level] + ROUND_OFF
    ]
    return Borders(best, lost[0] if lost else None)
