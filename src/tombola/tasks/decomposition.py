"""Bias and variance of a model over seeds, estimated from its predictions (Super tickets, Figure 1; SPEC 3.6).

Classification: the squared error (Brier) of the predicted class probabilities p against the one-hot label y, summed
over classes. Regression: the squared error of the predicted score, in squared units of the score. Over S seeds, for
every example:

    error    = mean_s ‖p_s − y‖²
    variance = Σ_s ‖p_s − p̄‖² / (S − 1)
    bias²    = error − variance = ‖p̄ − y‖² − variance / S

and then the mean over examples. Each is unbiased for what infinitely many seeds would give: ‖p̄ − y‖² alone would count
a share of the variance as bias. With few seeds bias² may come out slightly below 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tombola.errors import DataError


@dataclass(frozen=True)
class Decomposition:
    """``error`` = ``bias_squared`` + ``variance``, over ``seeds`` models and ``examples``."""

    error: float
    bias_squared: float
    variance: float
    seeds: int
    examples: int


def decompose(
    outputs: Sequence[np.ndarray], targets: Sequence[float] | np.ndarray, kind: str
) -> Decomposition:
    """``outputs``: a model's logits (examples × classes) for each seed, or its numbers (``kind="regression"``)."""
    if len(outputs) < 2:
        raise DataError(
            f"{len(outputs)} seed has no variance",
            where="outputs",
            todo="give the predictions of two at least",
        )
    if any(len(each) != len(targets) for each in outputs) or len(targets) == 0:
        counts = ", ".join(str(len(each)) for each in outputs)
        raise DataError(f"{counts} predictions for {len(targets)} targets", where="outputs")
    if kind == "regression":
        predicted = np.stack(
            [np.asarray(each, dtype=np.float64).reshape(len(targets), 1) for each in outputs]
        )
        true = np.asarray(targets, dtype=np.float64).reshape(-1, 1)
    else:
        predicted = np.stack([probabilities(each) for each in outputs])
        true = np.eye(predicted.shape[2])[np.asarray(targets, dtype=np.int64)]
    error = float(((predicted - true) ** 2).sum(axis=2).mean())
    variance = float(predicted.var(axis=0, ddof=1).sum(axis=1).mean())
    return Decomposition(error, error - variance, variance, len(outputs), len(targets))


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax over the classes, in float64."""
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise DataError(f"logits of {logits.shape} hold no classes", where="outputs")
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
