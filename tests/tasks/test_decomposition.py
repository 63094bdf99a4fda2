"""Bias and variance over seeds, against numbers worked out by hand and against what infinitely many seeds give."""

from __future__ import annotations

import numpy as np
import pytest

from tombola.errors import DataError
from tombola.tasks.decomposition import decompose, probabilities


def logits(*probabilities_of_one: float) -> np.ndarray:
    """Two classes, class 1 with these probabilities."""
    return np.array([[0.0, np.log(p / (1 - p))] for p in probabilities_of_one])


def test_probabilities_of_a_regression_by_hand():
    found = decompose([np.array([[1.0], [4.0]]), np.array([[3.0], [4.0]])], [2.0, 3.0], "regression")
    # Errors: (1, 1) and (1, 1); the first example's predictions 1 and 3 have variance 2, the second's 0.
    assert found.error == 1.0
    assert found.variance == 1.0
    assert found.bias_squared == 0.0
    assert (found.seeds, found.examples) == (2, 2)


def test_a_classification_by_hand():
    found = decompose([logits(0.6), logits(0.8)], [1], "classification")
    # Brier over both classes: 2 · 0.4² and 2 · 0.2²; the mean is 0.2. Variance of 0.6 and 0.8: 0.02, in both classes.
    assert found.error == pytest.approx((0.32 + 0.08) / 2)
    assert found.variance == pytest.approx(0.04)
    assert found.bias_squared == pytest.approx(0.16)


def test_seeds_that_agree_have_bias_alone():
    found = decompose([logits(0.1, 0.9)] * 3, [1, 1], "classification")
    assert found.variance == 0.0
    assert found.bias_squared == found.error == pytest.approx((2 * 0.81 + 2 * 0.01) / 2)


def test_two_seeds_estimate_what_many_seeds_have():
    """On average over draws, whatever the number of seeds: true bias² 0.25, true variance 4."""
    drawn = np.random.default_rng(0).normal(loc=0.5, scale=2.0, size=(4000, 2, 1))
    found = [decompose(list(pair), [0.0], "regression") for pair in drawn]
    assert np.mean([each.variance for each in found]) == pytest.approx(4.0, abs=0.3)
    assert np.mean([each.bias_squared for each in found]) == pytest.approx(0.25, abs=0.2)


def test_large_logits_do_not_overflow():
    assert probabilities(np.array([[1000.0, -1000.0]])).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("outputs", "targets", "kind", "said"),
    [
        ([logits(0.5)], [1], "classification", "1 seed has no variance"),
        ([logits(0.5), logits(0.5, 0.5)], [1], "classification", "1, 2 predictions for 1 targets"),
        ([np.zeros((0, 2))] * 2, [], "classification", "0 targets"),
        ([np.zeros((1, 1))] * 2, [1], "classification", "hold no classes"),
    ],
)
def test_what_cannot_be_decomposed_is_refused(outputs, targets, kind, said):
    with pytest.raises(DataError, match=said):
        decompose(outputs, targets, kind)
