"""One pass over a data set in evaluation mode, in which every head and FFN is scored (SPEC 3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tombola.errors import DataError, RecipeError, TrainingError, UnsupportedModel
from tombola.models.anatomy import unwrapped
from tombola.scores.gate_gradients import gate_gradients, gated_layers, recorded
from tombola.scores.importance import Granularity
from tombola.tasks.batching import collate, evaluation_batches
from tombola.tasks.encoding import Encoded
from tombola.training.loop import loss_sum
from tombola.training.numerics import applied, autocast, on_device, width_multiple
from tombola.training.recipe import Numerics

#: The most tokens for which a CPU writes its attention in bf16 out.
WRITTEN_OUT = 128


def mean_gradients(
    model: nn.Module, data: Encoded, numerics: Numerics, granularity: Granularity, batch_size: int
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Heads' and FFNs' means over ``data`` of absolute gate gradients; see ``importance`` for the granularities.

    Batches are sorted by length to save padding. The loss is the batch's sum, never its mean: an example's
    gradient is its own whoever shares its batch.
    """
    if len(data) == 0 or data.targets is None:
        raise DataError("there is nothing to score heads on", where="data", todo="give labelled examples")
    if batch_size < 1:
        raise RecipeError(f"{batch_size} is not a size", where="batch_size", todo="give 1 or more")
    layers = gated_layers(model)
    gates = sum(layer.heads for layer in layers) + len(layers)
    at_once = min(batch_size, numerics.micro_batch or batch_size)
    groups = -(-len(data) // batch_size) if granularity == "batch" else 1
    rows, finite = [], []
    with applied(numerics) as device, torch.inference_mode(False), torch.enable_grad():
        model.to(device)
        sums = torch.zeros(groups, gates, dtype=torch.float64, device=device)
        with _at_rest(model), recorded(layers) as activations:
            for indices in evaluation_batches(data.lengths, at_once):
                batch = on_device(collate(data, indices, multiple=width_multiple(device)), device)
                labels = batch.pop("labels")
                with autocast(numerics), _attention(numerics, batch["input_ids"].shape[1]):
                    logits = _logits(unwrapped(model), batch, data.targets)
                loss = loss_sum(logits, labels)
                values = gate_gradients(
                    loss, layers, activations, batch.get("attention_mask"), per_token=granularity == "token"
                )
                if granularity == "batch":
                    sums.index_add_(0, torch.from_numpy(indices // batch_size).to(device), values)
                else:
                    sums[0] += values.abs().sum(0)
                rows.append(indices)
                finite.append(values.isfinite().all(1) & logits.isfinite().all(1))
        _refuse_diverged(np.concatenate(rows), torch.cat(finite).cpu().numpy())
        means = iter((sums.abs().sum(0) / len(data)).tolist())
    heads = tuple(tuple(next(means) for _ in range(layer.heads)) for layer in layers)
    return heads, tuple(means)


@contextmanager
def _at_rest(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and no parameter that asks for a gradient; afterwards as it was."""
    modes = [(module, module.training) for module in model.modules()]
    wanted = [(weight, weight.requires_grad) for weight in model.parameters()]
    try:
        model.eval()
        for weight, _ in wanted:
            weight.requires_grad_(False)
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for weight, mode in wanted:
            weight.requires_grad_(mode)


def _attention(numerics: Numerics, width: int) -> AbstractContextManager[object]:
    """torch's attention written out, where its fused kernel takes most of the backward pass: bf16 on a CPU.

    Forward and backward, the fused one took two to three times as long at 32 tokens, and as long at 256.
    """
    if numerics.device == "cpu" and numerics.precision == "bf16" and width <= WRITTEN_OUT:
        return sdpa_kernel(SDPBackend.MATH)
    return nullcontext()


def _logits(model: nn.Module, batch: dict[str, Tensor], targets: np.ndarray) -> Tensor:
    """The model's logits for a batch; an error where they do not fit the targets of the data."""
    logits: Tensor | None = getattr(model(**batch), "logits", None)
    if logits is None or logits.dim() != 2:
        raise UnsupportedModel(
            "the model gives no logits, one row an example",
            where=type(model).__name__,
            todo="give a sequence classification model, fine-tuned on the task",
        )
    outputs = logits.shape[1]
    numbers = targets.dtype.kind == "f"
    if outputs != 1 if numbers else not 0 <= targets.min() <= targets.max() < outputs:
        wanted = "numbers" if numbers else f"classes {targets.min()} to {targets.max()}"
        raise DataError(
            f"the model has {outputs} outputs and the targets are {wanted}",
            where="data.targets",
            todo="give the model that was fine-tuned on this task",
        )
    return logits


def _refuse_diverged(rows: np.ndarray, finite: np.ndarray) -> None:
    bad = rows[~finite]
    if len(bad):
        raise TrainingError(
            f"the loss or its gradient is not a finite number for {len(bad)} of {len(rows)} examples",
            where=f"example {bad.min()} of the data (counted from 0)",
            todo="see whether the training diverged, whether the target is a number, or try precision fp32",
        )
