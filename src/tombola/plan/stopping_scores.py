"""Early stopping in the training step: what a training stops by, and what ``metrics.json`` says of it (SPEC 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tombola.plan.materials import encoded_split
from tombola.training.recipe import Numerics, Recipe

if TYPE_CHECKING:
    import numpy as np

    from tombola.training.history import TrainingResult
    from tombola.training.stopping import Stopping


def stopping_of(parameters: Mapping[str, Any], sources: Mapping[str, Any]) -> Stopping | None:
    """What the recipe stops by: its share of the step's development set; None where it trains to the end."""
    recipe = Recipe.from_json(parameters["recipe"])
    if not recipe.early_stopping:
        return None
    from tombola.training.stopping import Stopping

    dev = encoded_split(sources, "dev", recipe.max_length)
    return Stopping(recipe, dev, parameters["task"]["metrics"], Numerics.from_json(parameters["numerics"]))


def stopping_scores(
    parameters: Mapping[str, Any], logits: np.ndarray, targets: np.ndarray, result: TrainingResult
) -> dict[str, Any]:
    """Every epoch's scores, the best epoch, and its scores on the share that chose it and on the rest (trap 16).

    Nothing where the recipe has no early stopping: such metrics stay what they were.
    """
    recipe = Recipe.from_json(parameters["recipe"])
    if not recipe.early_stopping:
        return {}
    from tombola.tasks.metrics import score
    from tombola.tasks.splitting import selection_share

    share, rest = selection_share(len(targets), recipe.stop_share, recipe.stop_seed)
    metrics = parameters["task"]["metrics"]
    return {
        "dev_share": score(metrics, logits[share], targets[share]),
        "dev_rest": score(metrics, logits[rest], targets[rest]),
        "epochs": [
            {"epoch": each.epoch, "steps": each.step, "score": each.score, "scores": dict(each.scores)}
            for each in result.epochs
        ],
        "best_epoch": result.best_epoch,
    }
