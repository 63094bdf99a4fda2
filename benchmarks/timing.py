"""Measuring fairly: in turns, in alternating order, and never a ratio without its spread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.setting import wait_for
from tombola.deploy.interleaving import alternating

__all__ = ["alternating", "many", "median_interval", "seconds_of", "spread"]


def seconds_of(work: Callable[[], object], device: str = "cpu") -> float:
    wait_for(device)
    began = time.perf_counter()
    work()
    wait_for(device)
    return time.perf_counter() - began


def many(work: Callable[[], object], times: int, device: str = "cpu", warm_up: int = 2) -> list[float]:
    """Seconds of ``times`` runs, after some that do not count."""
    for _ in range(warm_up):
        work()
    return [seconds_of(work, device) for _ in range(times)]


def median_interval(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """The median with its 95 % bootstrap interval; of fewer than six values, with their range."""
    array = np.asarray(values, float)
    if len(array) < 6:
        return float(np.median(array)), float(array.min()), float(array.max())
    draws = np.random.default_rng(seed).choice(array, (2000, len(array)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return float(np.median(array)), float(low), float(high)


def spread(values: Sequence[float], form: str = "{:.2f}") -> str:
    """``median (low–high)`` as the tables show it."""
    median, low, high = (form.format(value) for value in median_interval(values))
    return f"{median} ({low}–{high})"
