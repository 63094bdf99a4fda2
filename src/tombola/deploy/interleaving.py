"""Measuring fairly: one after the other in alternating order, and never a ratio without its interval.

Machines get slower and faster by more than models differ. What is compared is therefore measured in the same moments,
and the interval of a ratio is drawn from the pairs: a resample holds both times of a moment or neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tombola.errors import UsageError

#: With fewer pairs than this the bootstrap of a median says nothing: the range of the pairs' ratios stands in.
FEWEST_FOR_BOOTSTRAP = 6
DRAWS = 2000


@dataclass(frozen=True)
class Timing:
    """The seconds of one piece of work, in the order they were measured."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    @property
    def quartiles(self) -> tuple[float, float]:
        low, high = np.percentile(self.seconds, [25, 75])
        return float(low), float(high)

    @property
    def iqr(self) -> float:
        """The width of the middle half."""
        low, high = self.quartiles
        return high - low


@dataclass(frozen=True)
class Ratio:
    """One median divided by another, with a 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def alternating(names: Sequence[str], turn: int) -> Sequence[str]:
    """A B C in one turn, C B A in the next: who comes first has no advantage."""
    return names if turn % 2 == 0 else names[::-1]


def interleaved(
    works: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    warm_up: int,
    clock: Callable[[], float] = time.perf_counter,
    wait: Callable[[], object] = lambda: None,
) -> dict[str, Timing]:
    """Time every work ``repeats`` times in turns, after ``warm_up`` turns that do not count.

    ``wait`` returns when the device has done what it was told: a GPU answers before it has worked.
    """
    for option, value, least in (("repeats", repeats, 1), ("warm_up", warm_up, 0)):
        if value < least:
            raise UsageError(f"{value} is too few", where=option, todo=f"give {least} or more")
    names = tuple(works)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(warm_up + repeats):
        for name in alternating(names, turn):
            wait()
            began = clock()
            works[name]()
            wait()
            if turn >= warm_up:
                seconds[name].append(clock() - began)
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def ratio_of_medians(above: Timing, below: Timing, *, seed: int = 0) -> Ratio:
    """Median ``above`` ÷ median ``below``, with the 95 % bootstrap interval over their pairs."""
    pairs = np.array([above.seconds, below.seconds], float)
    value = float(np.median(pairs[0]) / np.median(pairs[1]))
    count = pairs.shape[1]
    if count < FEWEST_FOR_BOOTSTRAP:
        each = pairs[0] / pairs[1]
        return Ratio(value, min(value, float(each.min())), max(value, float(each.max())))
    chosen = np.random.default_rng(seed).integers(0, count, (DRAWS, count))
    medians = np.median(pairs[:, chosen], axis=2)
    low, high = np.percentile(medians[0] / medians[1], [2.5, 97.5])
    return Ratio(value, float(low), float(high))
