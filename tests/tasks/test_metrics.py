"""The metrics against their definitions, written out, and against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from tombola.errors import DataError, TrainingError
from tombola.tasks.metrics import majority_baseline, score
from tombola.tasks.records import Records


def logits(classes: list[int], count: int = 2) -> np.ndarray:
    return np.eye(count, dtype=np.float32)[classes]


def test_two_classes_by_hand() -> None:
    """True positives 3, false positives 1, false negatives 2, true negatives 4."""
    true = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    given = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    found = score(("accuracy", "f1", "matthews"), logits(given), true)
    assert found["accuracy"] == pytest.approx(70.0)
    assert found["f1"] == pytest.approx(100 * 2 * 3 / (2 * 3 + 1 + 2))
    assert found["matthews"] == pytest.approx(100 * (3 * 4 - 1 * 2) / np.sqrt(4 * 5 * 5 * 6))
    assert list(found) == ["accuracy", "f1", "matthews"]


def test_correlations_by_hand() -> None:
    found = score(("pearson", "spearman"), np.array([[1.0], [2.0], [4.0]]), [1.0, 3.0, 2.0])
    assert found["spearman"] == pytest.approx(50.0)
    x, y = np.array([-4 / 3, -1 / 3, 5 / 3]), np.array([-1.0, 1.0, 0.0])
    assert found["pearson"] == pytest.approx(100 * (x @ y) / np.sqrt((x @ x) * (y @ y)))


def test_equal_to_scikit_learn_and_scipy() -> None:
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 200)
    outputs = rng.normal(size=(200, 2)).astype(np.float32)
    outputs[np.arange(200), true] += 0.7
    given = outputs.argmax(1)
    assert score(("accuracy", "f1", "matthews"), outputs, true) == pytest.approx(
        {
            "accuracy": 100 * sk.accuracy_score(true, given),
            "f1": 100 * sk.f1_score(true, given),
            "matthews": 100 * sk.matthews_corrcoef(true, given),
        }
    )
    numbers = rng.normal(size=200)
    guesses = numbers + rng.normal(size=200)
    assert score(("pearson", "spearman"), guesses, numbers) == pytest.approx(
        {
            "pearson": 100 * stats.pearsonr(guesses, numbers)[0],
            "spearman": 100 * stats.spearmanr(guesses, numbers)[0],
        }
    )


def test_three_classes() -> None:
    assert score(("accuracy",), logits([0, 1, 2, 2], 3), [0, 1, 1, 2]) == {"accuracy": 75.0}
    with pytest.raises(DataError, match="f1 is for two classes"):
        score(("f1",), logits([0, 1, 2], 3), [0, 1, 2])


def test_constant_predictions_score_nothing() -> None:
    true = [0, 1, 1, 0]
    assert score(("matthews", "f1"), logits([0, 0, 0, 0]), true) == {"matthews": 0.0, "f1": 0.0}
    assert score(("matthews",), logits([1, 1, 1, 1]), true) == {"matthews": 0.0}
    assert score(("f1",), logits([0, 0]), [0, 0]) == {"f1": 0.0}
    constant = {"pearson": 0.0, "spearman": 0.0}
    assert score(("pearson", "spearman"), np.full(4, 2.5), [1.0, 2.0, 3.0, 4.0]) == constant
    assert score(("pearson", "spearman"), np.arange(4.0), [1.0, 1.0, 1.0, 1.0]) == constant
    assert score(("pearson", "spearman"), np.array([3.0]), [1.0]) == constant


def test_predictions_that_cannot_be_scored() -> None:
    with pytest.raises(TrainingError, match="1 of 2 predictions are not finite"):
        score(("accuracy",), np.array([[0.0, 1.0], [np.nan, 0.0]]), [0, 1])
    with pytest.raises(DataError, match="3 predictions for 2 targets"):
        score(("accuracy",), logits([0, 1, 1]), [0, 1])
    with pytest.raises(DataError, match="hold no classes"):
        score(("accuracy",), np.zeros((2, 1)), [0, 1])
    with pytest.raises(DataError, match="not one number an example"):
        score(("pearson",), np.zeros((2, 2)), [0.0, 1.0])
    with pytest.raises(DataError, match="did you mean 'accuracy'"):
        score(("acuracy",), logits([0, 1]), [0, 1])


def records(targets: tuple, labels: tuple[str, ...] = ("no", "yes")) -> Records:
    return Records("dev", tuple("x" for _ in targets), None, targets, labels)


def test_majority_baseline() -> None:
    dev = records((0,) * 40 + (1,) * 31)
    assert majority_baseline(dev) == pytest.approx(56.338, abs=1e-3)
    assert majority_baseline(dev, "matthews") == 0.0
    always_one = score(("f1",), logits([1] * 71), list(dev.targets or ()))["f1"]
    assert majority_baseline(dev, "f1") == pytest.approx(always_one)
    assert majority_baseline(records((1.0, 2.0), ())) == 0.0
    with pytest.raises(DataError, match="no baseline"):
        majority_baseline(Records("test", ("x",), None, None, ("a", "b")))
