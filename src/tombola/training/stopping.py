"""Early stopping (SPEC 3.4): after every epoch a score on a seeded share of the development set; the best is kept.

The rest of the development set never decides anything, so that figures on it are unbiased (SPEC 5, trap 16). The
learning rate follows the full recipe, however early the training ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor, nn

from tombola.errors import DataError, RecipeError
from tombola.models.anatomy import unwrapped
from tombola.tasks.encoding import Encoded
from tombola.tasks.metrics import score
from tombola.tasks.splitting import selection_share
from tombola.training.evaluate import evaluate
from tombola.training.recipe import Numerics, Recipe
from tombola.training.sparsity import Sparsity
from tombola.training.state import TrainingState, capture, restore_model

#: Begin the names of the best epoch's tensors in a checkpoint.
PARTS = (MODEL, SPARSITY) = ("model/", "sparsity/")


@dataclass(frozen=True)
class EpochScore:
    """What the model of one epoch (the first is 1), after ``step`` steps, scores on the share."""

    epoch: int
    step: int
    scores: Mapping[str, float]

    @property
    def score(self) -> float:
        """The mean of the task's metrics (SPEC 3.3)."""
        return fmean(self.scores.values())


class Stopping:
    """When one training ends, and the weights of its best epoch; ties go to the earlier one.

    The model is scored as it lies between two steps, with the weights that would be saved then. Everything
    known lies in ``state()``: a resumed training stops where the undisturbed one would.
    """

    def __init__(self, recipe: Recipe, dev: Encoded, metrics: Sequence[str], numerics: Numerics) -> None:
        if numerics.world_size > 1:
            raise RecipeError(
                "early stopping is for a training on one process",
                where="numerics.world_size",
                todo="give world_size: 1, or early_stopping: false",
            )
        if dev.targets is None:
            raise DataError(
                "early stopping has no labels to score by", where="dev", todo="give labelled examples"
            )
        rows, _ = selection_share(len(dev), recipe.stop_share, recipe.stop_seed)
        self.share, self.targets = dev.take(rows), dev.targets[rows]
        self.metrics = tuple(metrics)
        self.patience = recipe.patience
        self.numerics = numerics
        self.epochs: list[EpochScore] = []
        self._kept: dict[str, Tensor] = {}

    @property
    def best(self) -> EpochScore | None:
        """The earliest of the epochs with the highest score so far."""
        return max(self.epochs, key=lambda epoch: epoch.score, default=None)

    @property
    def over(self) -> bool:
        """Whether ``patience`` epochs have passed without improvement."""
        return self.best is not None and self.epochs[-1].epoch - self.best.epoch >= self.patience

    def after_epoch(self, epoch: int, step: int, model: nn.Module, sparsity: Sparsity) -> None:
        """Score the model after ``epoch`` epochs; copy its weights if none before was as good."""
        logits = evaluate(unwrapped(model), self.share, self.numerics)
        self.epochs.append(EpochScore(epoch, step, score(self.metrics, logits, self.targets)))
        if self.best is self.epochs[-1]:
            now = capture(model, None, sparsity.state(), step=step, total=step)
            self._kept = {
                f"{part}{name}": tensor for part in PARTS for name, tensor in _of(now, part).items()
            }

    def restore_best(self, model: nn.Module, sparsity: Sparsity) -> None:
        """Put the best epoch's weights back, bit for bit; a training that finished no epoch stays as it is."""
        if self.best is None:
            return
        parts = {part: _named(part, self._kept) for part in PARTS}
        restore_model(model, TrainingState(self.best.step, self.best.step, model=parts[MODEL]))
        sparsity.load_state(parts[SPARSITY])

    def state(self) -> dict[str, Tensor]:
        """For checkpoints: the scores so far and the best epoch's tensors, none of which is ever changed."""
        if not self.epochs:
            return {}
        places = [[epoch.epoch, epoch.step] for epoch in self.epochs]
        scores = [[epoch.scores[name] for name in self.metrics] for epoch in self.epochs]
        return {
            "epochs": torch.tensor(places, dtype=torch.int64),
            "scores": torch.tensor(scores, dtype=torch.float64),
            **self._kept,
        }

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Go on from ``state()``; an empty one is a training that has finished no epoch."""
        places, rows = (saved[name].tolist() if saved else [] for name in ("epochs", "scores"))
        self.epochs = [
            EpochScore(epoch, step, dict(zip(self.metrics, scores, strict=True)))
            for (epoch, step), scores in zip(places, rows, strict=True)
        ]
        self._kept = {name: tensor for name, tensor in saved.items() if name.startswith(PARTS)}


def _of(state: TrainingState, part: str) -> Mapping[str, Tensor]:
    return state.model if part == MODEL else state.sparsity


def _named(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
