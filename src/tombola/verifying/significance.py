"""Is the difference between ticket and full model more than the noise of the seeds?

Everything here is *paired*: run k of the ticket stands beside run k of the full model (the same seed). With
few seeds each answer says what it can and cannot show. Significance stands beside a criterion, it never
replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from tombola.errors import UsageError, nearest
from tombola.verifying.summary import Summary, checked_scores, summarize

if TYPE_CHECKING:
    import numpy as np

#: ``greater``: the ticket is better than the full model; ``less``: it is worse.
Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES = ("two-sided", "greater", "less")

#: 2^16 sign patterns are enumerated in a moment; beyond, the t-test has enough seeds to be trusted.
MOST_FLIPPED = 16
#: Fewer seeds than this and a resampled interval is known to be too narrow.
FEW_SEEDS = 8


@dataclass(frozen=True)
class PairedTest:
    """A test of "the mean difference is zero". Where ``p_value`` is None, ``note`` says why."""

    test: str
    alternative: Alternative
    n: int
    statistic: float | None
    p_value: float | None
    note: str = ""


@dataclass(frozen=True)
class Interval:
    """An interval for the mean difference ticket − full. Where a bound is None, ``note`` says why."""

    low: float | None
    high: float | None
    level: float
    how: str
    n: int
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Everything said about ticket − full over the same seeds."""

    difference: Summary
    t_test: PairedTest
    sign_flip: PairedTest
    interval: Interval

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    ticket_scores: Sequence[float],
    full_scores: Sequence[float],
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Summary of the paired differences, t-test, exact sign-flip test and bootstrap interval."""
    differences = paired_differences(ticket_scores, full_scores)
    return Comparison(
        difference=summarize(differences.tolist()),
        t_test=paired_t_test(ticket_scores, full_scores, alternative=alternative),
        sign_flip=sign_flip_test(ticket_scores, full_scores, alternative=alternative),
        interval=bootstrap_interval(ticket_scores, full_scores, level=level, resamples=resamples, seed=seed),
    )


def paired_t_test(
    ticket_scores: Sequence[float], full_scores: Sequence[float], *, alternative: Alternative = "two-sided"
) -> PairedTest:
    """Student's paired t-test over seeds (the super tickets' test, p < 0.05)."""
    _check_alternative(alternative)
    differences = paired_differences(ticket_scores, full_scores)
    n = len(differences)
    if n < 2:
        return PairedTest("paired t", alternative, n, None, None, "one seed has no spread: run at least two")
    if _constant(differences, ticket_scores, full_scores):
        note = f"all {n} differences are {differences[0]:.4g}: without spread there is no t"
        return PairedTest("paired t", alternative, n, None, None, note)
    t = float(differences.mean() / (differences.std(ddof=1) / n**0.5))
    tail = {"two-sided": -abs(t), "greater": -t, "less": t}[alternative]
    p = student_t_below(tail, n - 1) * (2 if alternative == "two-sided" else 1)
    return PairedTest("paired t", alternative, n, t, p)


def student_t_below(t: float, freedom: int) -> float:
    """P(T ≤ t) of Student's t with a whole number of degrees of freedom: a finite sum (Abramowitz and Stegun, 26.7).

    Not scipy's, whose import takes longer than a finished study may take to answer.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term = cosine if freedom % 2 else 1.0
    total = 0.0
    for k in range(freedom % 2, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (k + 1) / (k + 2)
    within = math.sin(angle) * total
    if freedom % 2:
        within = 2 / math.pi * (angle + within)
    return max(0.5 * (1 + within), 0.0)


def sign_flip_test(
    ticket_scores: Sequence[float], full_scores: Sequence[float], *, alternative: Alternative = "two-sided"
) -> PairedTest:
    """Exact permutation test: of the 2^n ways to swap ticket and full, the share with as extreme a mean.

    Assumes nothing about the distribution. Two-sided, p is never below 2/2^n: five seeds cannot reach 0.05.
    """
    _check_alternative(alternative)
    differences = paired_differences(ticket_scores, full_scores)
    n = len(differences)
    observed = float(differences.mean())
    if n < 2:
        return PairedTest("sign flip", alternative, n, observed, None, "one seed cannot be tested")
    if n > MOST_FLIPPED:
        note = f"more than {MOST_FLIPPED} seeds are not enumerated: use the t-test"
        return PairedTest("sign flip", alternative, n, observed, None, note)
    import numpy as np

    patterns = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    means = (1 - 2 * patterns) @ differences / n
    slack = _round_off(ticket_scores, full_scores)
    extreme = {
        "two-sided": np.abs(means) >= abs(observed) - slack,
        "greater": means >= observed - slack,
        "less": means <= observed + slack,
    }[alternative]
    smallest = (2 if alternative == "two-sided" else 1) / 2**n
    note = f"with {n} seeds p cannot be below {smallest:.3g}" if smallest > 0.05 else ""
    return PairedTest("sign flip", alternative, n, observed, float(extreme.mean()), note)


def bootstrap_interval(
    ticket_scores: Sequence[float],
    full_scores: Sequence[float],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    how: Literal["percentile", "BCa"] = "percentile",
) -> Interval:
    """Bootstrap interval of the mean difference: seeds drawn with replacement, pairs kept together."""
    if how not in ("percentile", "BCa"):
        raise UsageError(f"there is no bootstrap '{how}'", todo=nearest(how, ["percentile", "BCa"]))
    if not 0 < level < 1:
        raise UsageError(f"a level lies between 0 and 1, not {level}", todo="write 0.95 for 95 %")
    differences = paired_differences(ticket_scores, full_scores)
    n = len(differences)
    if n < 2:
        return Interval(None, None, level, how, n, "one seed cannot be resampled: run at least two")
    if _constant(differences, ticket_scores, full_scores):
        value = float(differences.mean())
        note = f"all {n} differences are {value:.4g}: a point that says nothing about other seeds"
        return Interval(value, value, level, how, n, note)
    import numpy as np

    note = ""
    if n < FEW_SEEDS:
        note = f"{n} seeds are few to resample: too narrow an interval, read it beside the t-test"
    random = np.random.default_rng(seed)
    if how == "percentile":
        means = differences[random.integers(0, n, (resamples, n))].mean(axis=1)
        low, high = (float(np.quantile(means, (1 + side * level) / 2)) for side in (-1, 1))
    else:
        low, high = _bias_corrected(differences, level, resamples, random)
    if not (np.isfinite(low) and np.isfinite(high)):
        return Interval(None, None, level, how, n, "too few different resamples for BCa: use percentile")
    return Interval(low, high, level, how, n, note)


def _bias_corrected(
    differences: np.ndarray, level: float, resamples: int, random: np.random.Generator
) -> tuple[float, float]:
    """scipy's bias-corrected and accelerated interval; not a number where the resamples are too few."""
    import warnings

    import numpy as np
    from scipy.stats import DegenerateDataWarning, bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # answered by the caller, in words
        result = bootstrap(
            (differences,),
            np.mean,
            n_resamples=resamples,
            confidence_level=level,
            method="BCa",
            rng=random,
        )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def paired_differences(ticket_scores: Sequence[float], full_scores: Sequence[float]) -> np.ndarray:
    """ticket − full, seed by seed; unequal numbers of seeds cannot be paired."""
    import numpy as np

    ticket = checked_scores(ticket_scores, "ticket")
    full = checked_scores(full_scores, "full")
    if len(ticket) != len(full):
        raise UsageError(
            f"{len(ticket)} ticket scores cannot be paired with {len(full)} scores of the full model",
            where="paired comparison",
            todo="give both for the same seeds, in the same order",
        )
    return np.array(ticket) - np.array(full)


def _constant(differences: np.ndarray, ticket_scores: Sequence[float], full_scores: Sequence[float]) -> bool:
    """Equal up to what subtracting such scores leaves behind (82.4 − 82.3 ≠ 71.3 − 71.2 in floats)."""
    return float(differences.max() - differences.min()) <= _round_off(ticket_scores, full_scores)


def _round_off(ticket_scores: Sequence[float], full_scores: Sequence[float]) -> float:
    return 1e-12 * max(1.0, *(abs(float(score)) for score in (*ticket_scores, *full_scores)))


def _check_alternative(alternative: str) -> None:
    if alternative not in ALTERNATIVES:
        raise UsageError(f"there is no alternative '{alternative}'", todo=nearest(alternative, ALTERNATIVES))
