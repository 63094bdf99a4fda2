"""Evaluation: logits for every example, in the data's own order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from tombola.tasks.batching import collate, evaluation_batches
from tombola.tasks.encoding import Encoded
from tombola.training.numerics import applied, autocast, on_device, width_multiple
from tombola.training.recipe import Numerics


def evaluate(model: nn.Module, data: Encoded, numerics: Numerics, batch_size: int = 64) -> np.ndarray:
    """Float32 logits (examples × outputs) of the model in evaluation mode; the model is left as it was.

    Batches are sorted by length to save padding and put back in order; nothing is drawn at random.
    """
    modes = [(module, module.training) for module in model.modules()]
    rows: list[np.ndarray] = []
    logits: list[torch.Tensor] = []
    with applied(numerics) as device, torch.inference_mode():
        model.to(device).eval()
        try:
            for indices in evaluation_batches(data.lengths, batch_size):
                batch: dict[str, Any] = on_device(
                    collate(data, indices, multiple=width_multiple(device)), device
                )
                batch.pop("labels", None)
                with autocast(numerics):
                    logits.append(model(**batch).logits.float())
                rows.append(indices)
            scored = torch.cat(logits).cpu().numpy()
        finally:
            for module, mode in modes:
                module.training = mode
    ordered = np.empty_like(scored)
    ordered[np.concatenate(rows)] = scored
    return ordered
