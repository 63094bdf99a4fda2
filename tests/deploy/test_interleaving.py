"""The order of measuring, what counts, and ratios with their intervals: with a clock that tells what it is told."""

from __future__ import annotations

import pytest

from tombola.deploy.interleaving import Timing, alternating, interleaved, ratio_of_medians
from tombola.errors import UsageError


class Clock:
    """Time passes only where the work says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_works_are_measured_in_turns_whose_order_alternates():
    calls: list[str] = []
    works = {name: lambda name=name: calls.append(name) for name in "abc"}
    interleaved(works, repeats=3, warm_up=1)
    assert "".join(calls) == "abccbaabccba"


def test_the_seconds_are_those_of_the_work_and_the_warm_up_does_not_count():
    clock, waited = Clock(), []
    took = {"slow": iter([9.0, 4.0, 2.0, 6.0]), "fast": iter([9.0, 1.0, 1.5, 0.5])}

    def work(name):
        clock.now += next(took[name])

    timings = interleaved(
        {name: lambda name=name: work(name) for name in took},
        repeats=3,
        warm_up=1,
        clock=clock,
        wait=lambda: waited.append(clock.now),
    )
    assert timings["slow"].seconds == (4.0, 2.0, 6.0)
    assert timings["fast"].seconds == (1.0, 1.5, 0.5)
    assert len(waited) == 2 * 2 * 4, "before and after each of 2 × 4 runs"


def test_the_wait_belongs_to_the_work():
    clock = Clock()
    unfinished = [0.0]

    def work():
        unfinished[0] = 3.0  # a GPU answers at once

    def wait():
        clock.now += unfinished[0]
        unfinished[0] = 0.0

    assert interleaved({"it": work}, repeats=2, warm_up=0, clock=clock, wait=wait)["it"].seconds == (3.0, 3.0)


def test_median_and_quartiles():
    timing = Timing((5.0, 1.0, 2.0, 4.0, 3.0))
    assert (timing.median, timing.quartiles, timing.iqr) == (3.0, (2.0, 4.0), 2.0)


def test_a_constant_ratio_has_an_interval_of_no_width_however_much_the_machine_wavers():
    below = Timing(tuple(1.0 + 0.5 * (number % 7) for number in range(20)))
    ratio = ratio_of_medians(Timing(tuple(0.7 * second for second in below.seconds)), below)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.7, 0.7, 0.7))


def test_the_interval_surrounds_the_ratio_and_is_the_same_every_time():
    above = Timing(tuple(2.0 + 0.1 * (number % 5) for number in range(20)))
    below = Timing(tuple(1.0 + 0.1 * (number % 3) for number in range(20)))
    ratio = ratio_of_medians(above, below)
    assert ratio.value == pytest.approx(2.2 / 1.1)
    assert ratio.low < ratio.value < ratio.high
    assert ratio == ratio_of_medians(above, below)
    assert str(ratio).startswith("2.00 [")


def test_few_pairs_give_their_range():
    ratio = ratio_of_medians(Timing((1.0, 2.0, 4.0)), Timing((1.0, 1.0, 1.0)))
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 1.0, 4.0)


def test_who_comes_first_changes():
    assert [list(alternating(["x", "y"], turn)) for turn in range(2)] == [["x", "y"], ["y", "x"]]


@pytest.mark.parametrize(("repeats", "warm_up", "where"), [(0, 1, "repeats"), (1, -1, "warm_up")])
def test_too_few_runs_are_refused(repeats, warm_up, where):
    with pytest.raises(UsageError) as told:
        interleaved({"it": lambda: None}, repeats=repeats, warm_up=warm_up)
    assert told.value.where == where
