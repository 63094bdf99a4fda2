"""The order of the data: which examples each step sees, as a pure function of (seed, purpose, step)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tombola import streams
from tombola.tasks.batching import epoch_batches
from tombola.training.recipe import Recipe


def batches_from(
    start: int, lengths: np.ndarray, recipe: Recipe, *, seed: int, purpose: str
) -> Iterator[tuple[int, int, np.ndarray]]:
    """(step, epoch, examples) from step ``start`` to the recipe's last: resuming needs only the step."""
    stream = streams.derive(seed, purpose, "order")
    per_epoch = recipe.steps_per_epoch(len(lengths))
    for epoch in range(start // per_epoch, recipe.epochs):
        batches = epoch_batches(lengths, recipe.batch_size, seed=stream, epoch=epoch, order=recipe.order)
        for position in range(max(0, start - epoch * per_epoch), per_epoch):
            yield epoch * per_epoch + position, epoch, batches[position]
