"""The tasks' metrics, times 100 as the papers print them, by scikit-learn and scipy.

Where a formula divides by zero because all predictions (or all targets) are the same, the score is 0:
Matthews, Pearson, Spearman, and the F1 of a class that is never predicted. A collapsed model scores nothing;
it is not undefined.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tombola.errors import DataError, TrainingError, nearest
from tombola.tasks.records import Records


def score(
    metrics: Iterable[str], predictions: np.ndarray, targets: Sequence[float] | np.ndarray
) -> dict[str, float]:
    """Each metric of ``predictions``: logits (examples × classes), or one number an example (regression)."""
    predictions = np.asarray(predictions)
    true = np.asarray(targets)
    if len(predictions) != len(true) or len(true) == 0:
        raise DataError(f"{len(predictions)} predictions for {len(true)} targets", where="predictions")
    if not np.isfinite(predictions).all():
        rows = predictions.reshape(len(predictions), -1)
        bad = int((~np.isfinite(rows).all(axis=1)).sum())
        raise TrainingError(
            f"{bad} of {len(true)} predictions are not finite numbers",
            where="predictions",
            todo="the training diverged: lower the learning rate, or use fp32",
        )
    scores = {}
    for name in metrics:
        if name not in METRICS:
            raise DataError(
                f"there is no metric '{name}'", where="metrics", todo=nearest(name, list(METRICS))
            )
        given = _numbers(predictions) if name in REGRESSION else _classes(predictions)
        scores[name] = 100.0 * METRICS[name](given, true)
    return scores


def majority_baseline(records: Records, metric: str | None = None) -> float:
    """The best score of a model that says the same of every example: the larger class's share, F1 of always
    1, or 0.
    """
    if records.targets is None or len(records) == 0:
        raise DataError("records without targets have no baseline", where=f"split {records.split}")
    metric = metric or ("accuracy" if records.labels else "pearson")
    if metric == "accuracy":
        return 100.0 * max(Counter(records.targets).values()) / len(records)
    if metric == "f1":
        share = records.targets.count(1) / len(records)
        return 100.0 * 2 * share / (1 + share)
    if metric in METRICS:
        return 0.0
    raise DataError(f"there is no metric '{metric}'", where="metric", todo=nearest(metric, list(METRICS)))


def _accuracy(given: np.ndarray, true: np.ndarray) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(true, given))


def _f1(given: np.ndarray, true: np.ndarray) -> float:
    """F1 of class 1 (``equivalent``, ``duplicate``), as GLUE scores MRPC and QQP."""
    from sklearn.metrics import f1_score

    classes = np.union1d(given, true)
    if not np.isin(classes, (0, 1)).all():
        raise DataError(
            f"f1 is for two classes, these are {len(classes)}", where="metrics", todo="use accuracy"
        )
    return float(f1_score(true, given, pos_label=1, average="binary", zero_division=0))  # pyright: ignore[reportArgumentType]


def _matthews(given: np.ndarray, true: np.ndarray) -> float:
    from sklearn.metrics import matthews_corrcoef

    return 0.0 if _constant(given) or _constant(true) else float(matthews_corrcoef(true, given))


def _pearson(given: np.ndarray, true: np.ndarray) -> float:
    from scipy.stats import pearsonr

    return _correlation(pearsonr, given, true)


def _spearman(given: np.ndarray, true: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return _correlation(spearmanr, given, true)


def _correlation(measure: Callable, given: np.ndarray, true: np.ndarray) -> float:
    if _constant(given) or _constant(true):
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nearly constant predictions: the number is still what scipy says
        value = float(measure(given, true).statistic)
    return value if np.isfinite(value) else 0.0


def _constant(values: np.ndarray) -> bool:
    return bool((values == values[0]).all())


def _classes(predictions: np.ndarray) -> np.ndarray:
    if predictions.ndim != 2 or predictions.shape[1] < 2:
        raise DataError(
            f"logits of {predictions.shape} hold no classes",
            where="predictions",
            todo="give examples × classes",
        )
    return predictions.argmax(axis=1)


def _numbers(predictions: np.ndarray) -> np.ndarray:
    if predictions.size != len(predictions):
        raise DataError(
            f"predictions of {predictions.shape} are not one number an example", where="predictions"
        )
    return predictions.reshape(-1).astype(np.float64)


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
}
REGRESSION = frozenset({"pearson", "spearman"})
