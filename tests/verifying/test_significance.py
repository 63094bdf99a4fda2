from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from tombola.errors import UsageError
from tombola.verifying import significance
from tombola.verifying.significance import (
    bootstrap_interval,
    compare,
    paired_t_test,
    sign_flip_test,
)

FULL = [69.0, 70.5, 68.2, 71.1, 69.4]
TICKET = [70.1, 71.0, 69.9, 71.0, 71.2]


def test_t_written_out_by_hand() -> None:
    # differences 1, 2, 3: mean 2, std 1, t = 2 / (1/√3) = 2√3, two degrees of freedom
    test = paired_t_test([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert test.statistic == pytest.approx(2 * math.sqrt(3))
    # the t distribution with two degrees of freedom has the closed form p = 1 − t/√(2 + t²)
    assert test.p_value == pytest.approx(1 - 2 * math.sqrt(3) / math.sqrt(14))


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_t_equals_an_independent_computation(alternative) -> None:
    differences = np.array(TICKET) - np.array(FULL)
    t = differences.mean() / (differences.std(ddof=1) / math.sqrt(5))
    upper = scipy.stats.t(df=4).sf(t)
    expected = {"greater": upper, "less": 1 - upper, "two-sided": 2 * min(upper, 1 - upper)}[alternative]
    test = paired_t_test(TICKET, FULL, alternative=alternative)
    assert test.statistic == pytest.approx(t)
    assert test.p_value == pytest.approx(expected)


def test_pairing_matters() -> None:
    """The same scores against another order of seeds are another test (an unpaired one would not notice)."""
    assert paired_t_test(TICKET, FULL).p_value != pytest.approx(paired_t_test(TICKET, FULL[::-1]).p_value)


def test_sign_flip_equals_counting_by_hand() -> None:
    # differences 1, 2, 3: of the 8 sums only +6 and −6 are as extreme
    assert sign_flip_test([1.0, 2.0, 3.0], [0.0] * 3).p_value == 2 / 8
    assert sign_flip_test([1.0, 2.0, 3.0], [0.0] * 3, alternative="greater").p_value == 1 / 8
    assert sign_flip_test([1.0, 2.0, 3.0], [0.0] * 3, alternative="less").p_value == 1.0
    # differences −1, 2, 3: |sum| ≥ 4 for ±4 and ±6
    assert sign_flip_test([-1.0, 2.0, 3.0], [0.0] * 3).p_value == 4 / 8


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_sign_flip_equals_scipy_and_an_enumeration(alternative) -> None:
    differences = np.array(TICKET) - np.array(FULL)
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=5)
    ]
    observed = differences.sum()
    as_extreme = {
        "two-sided": [abs(total) >= abs(observed) - 1e-9 for total in sums],
        "greater": [total >= observed - 1e-9 for total in sums],
        "less": [total <= observed + 1e-9 for total in sums],
    }[alternative]
    test = sign_flip_test(TICKET, FULL, alternative=alternative)
    assert test.p_value == sum(as_extreme) / 32
    scipys = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative=alternative
    )
    assert test.p_value == pytest.approx(scipys.pvalue)


def test_sign_flip_says_what_few_seeds_cannot_show() -> None:
    assert sign_flip_test([9.0] * 3, [1.0, 2.0, 3.0]).note == "with 3 seeds p cannot be below 0.25"
    assert sign_flip_test(list(range(6)), [9.0] * 6).note == ""
    assert sign_flip_test(list(range(17)), [0.0] * 17).p_value is None


def test_equal_differences_warn_of_nothing_and_claim_nothing() -> None:
    ticket, full = [82.4, 71.3, 60.2], [82.3, 71.2, 60.1]  # 0.1 each, but not in floating point
    assert len({t - f for t, f in zip(ticket, full, strict=True)}) > 1
    assert paired_t_test(ticket, full).p_value is None
    assert "0.1" in paired_t_test(ticket, full).note
    interval = bootstrap_interval(ticket, full)
    assert interval.low == interval.high == pytest.approx(0.1)
    assert "point" in interval.note
    assert sign_flip_test(ticket, full).p_value == 0.25
    assert paired_t_test(FULL, FULL).p_value is None
    assert sign_flip_test(FULL, FULL).p_value == 1.0


def test_one_seed_gives_reasons_instead_of_numbers() -> None:
    comparison = compare([80.0], [79.0])
    assert comparison.difference.mean == 1.0
    assert comparison.difference.std is None
    assert comparison.t_test.p_value is comparison.sign_flip.p_value is comparison.interval.low is None
    assert all(part.note for part in (comparison.t_test, comparison.sign_flip, comparison.interval))


def test_the_percentile_interval_equals_enumerating_every_resample() -> None:
    differences = np.array([0.3, 1.1, 2.0])
    means = np.repeat([np.mean(draw) for draw in itertools.product(differences, repeat=3)], 1000)
    interval = bootstrap_interval(differences.tolist(), [0.0] * 3, resamples=50_000)
    assert interval.low == pytest.approx(np.quantile(means, 0.025), abs=0.03)
    assert interval.high == pytest.approx(np.quantile(means, 0.975), abs=0.03)
    assert "few" in interval.note


def test_the_interval_is_seeded_and_covers_the_mean() -> None:
    first, again = (bootstrap_interval(TICKET, FULL, seed=3) for _ in range(2))
    assert first == again
    assert first != bootstrap_interval(TICKET, FULL, seed=4, level=0.9)
    assert first.low < np.mean(TICKET) - np.mean(FULL) < first.high


def test_the_interval_covers_about_its_level_when_seeds_are_many() -> None:
    draw = np.random.default_rng(0)
    hits = 0
    for trial in range(100):
        noise = draw.normal(0.5, 1.0, 30)
        interval = bootstrap_interval(noise.tolist(), [0.0] * 30, resamples=400, seed=trial)
        hits += interval.low <= 0.5 <= interval.high
    assert 86 <= hits <= 99


@pytest.mark.parametrize("scores", [[1.0, 2.0], [0.0, 0.0, 1.0], TICKET])
def test_bca_needs_no_warning(scores) -> None:
    interval = bootstrap_interval(scores, [0.0] * len(scores), how="BCa", resamples=999)
    assert (interval.low is None) == (interval.high is None)
    assert interval.low is None or interval.low <= np.mean(scores) <= interval.high


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(UsageError, match="cannot be paired"):
        paired_t_test([1.0, 2.0], [1.0])
    with pytest.raises(UsageError, match="alternative"):
        sign_flip_test([1.0, 2.0], [1.0, 1.0], alternative="bigger")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="level"):
        bootstrap_interval([1.0, 2.0], [1.0, 1.0], level=95)
    with pytest.raises(UsageError, match="bootstrap"):
        bootstrap_interval([1.0, 2.0], [1.0, 1.0], how="bca")  # pyright: ignore[reportArgumentType]


def test_json_is_plain() -> None:
    json = compare(TICKET, FULL).to_json()
    assert set(json) == {"difference", "t_test", "sign_flip", "interval"}
    for part in json.values():
        assert all(value is None or type(value) in (float, int, str) for value in part.values())


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 30])
def test_students_t_is_scipys(freedom) -> None:
    for t in (-300.0, -4.3, -1.0, -1e-6, 0.0, 0.3, 2.5, 80.0):
        expected = scipy.stats.t(df=freedom).cdf(t)
        assert significance.student_t_below(t, freedom) == pytest.approx(expected, rel=1e-6, abs=1e-14)
