"""∂L(x)/∂gate of every head and FFN for each example of a batch, out of one backward pass (SPEC 3.1).

A gate ξ multiplies an activation c, so at ξ = 1 its gradient is Σ_tokens ⟨∂L/∂c, c⟩: no gate has to exist, and
no parameter needs a gradient. The graph begins at the first layer's contexts; what lies before has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tombola.errors import UnsupportedModel
from tombola.models.anatomy import anatomy_of, backbone_of, module_at, unwrapped
from tombola.models.families import family_of


@dataclass(frozen=True)
class GatedLayer:
    """Where one layer's gates act: on the input of one matrix (heads) and on the output of another (FFN)."""

    heads: int
    attention_output: nn.Module
    ffn_output: nn.Module


@dataclass(frozen=True)
class Activations:
    """What the gates of every layer multiply, as the latest forward pass left it."""

    contexts: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)

    def clear(self) -> None:
        self.contexts.clear()
        self.outputs.clear()


def gated_layers(model: nn.Module) -> tuple[GatedLayer, ...]:
    """The layers of a whole model of a known family, with the modules at which their gates act."""
    anatomy = anatomy_of(model)
    structure = anatomy.structure
    if structure is not None and structure.heads_removed + structure.ffns_removed:
        raise UnsupportedModel(
            "the importance of heads and FFNs is that of a whole model, and this one lacks some",
            where=f"{type(unwrapped(model)).__name__} with {structure}",
            todo="score the fine-tuned model that it was cut from",
        )
    if not any(layer.heads for layer in anatomy.layers):
        raise UnsupportedModel(
            "the model has no attention heads to score",
            where=type(unwrapped(model)).__name__,
            todo="give a transformer with at least one layer",
        )
    backbone, matrices = backbone_of(model), family_of(anatomy.family).matrices
    return tuple(
        GatedLayer(
            layer.heads,
            module_at(backbone, f"{layer.path}.{matrices['attention_output']}"),
            module_at(backbone, f"{layer.path}.{matrices['output']}"),
        )
        for layer in anatomy.layers
    )


@contextmanager
def recorded(layers: Sequence[GatedLayer]) -> Iterator[Activations]:
    """Keeps what the gates multiply, and starts the autograd graph there; all hooks are gone afterwards."""
    activations = Activations()
    handles = []

    def keep(among: dict[int, Tensor], index: int, activation: Tensor) -> Tensor:
        if index in among:
            raise UnsupportedModel(
                "a layer computes one of its parts more than once in a forward pass",
                where=f"layer {index}",
                todo="set config.chunk_size_feed_forward = 0; layers that share weights are not supported",
            )
        # Only the very first one: everything behind it hangs on it.
        if not activation.requires_grad:
            activation = activation.detach().requires_grad_()
        among[index] = activation
        return activation

    def hook(index: int, layer: GatedLayer) -> None:
        def contexts(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (keep(activations.contexts, index, inputs[0]), *inputs[1:])

        def outputs(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
            return keep(activations.outputs, index, output)

        handles.append(layer.attention_output.register_forward_pre_hook(contexts))
        handles.append(layer.ffn_output.register_forward_hook(outputs))

    try:
        for index, layer in enumerate(layers):
            hook(index, layer)
        yield activations
    finally:
        for handle in handles:
            handle.remove()
        activations.clear()


def gate_gradients(
    loss: Tensor,
    layers: Sequence[GatedLayer],
    activations: Activations,
    attended: Tensor | None,
    *,
    per_token: bool = False,
) -> Tensor:
    """∂loss/∂gate for every example, float64 (examples × gates: all heads layer by layer, then all FFNs).

    ``loss`` is the sum of the examples' losses. Tokens that are not ``attended`` count nothing. ``per_token``
    gives the sum over tokens of the absolute value of each token's part. The activations are used up.
    """
    kept = _in_order(activations, layers)
    heads = [*(layer.heads for layer in layers), *([1] * len(layers))]
    gradients = torch.autograd.grad(loss, kept)
    activations.clear()
    where = None if attended is None else attended.bool().unsqueeze(-1)
    columns = []
    with torch.no_grad():
        for gradient, activation, count in zip(gradients, kept, heads, strict=True):
            if where is not None and activation.shape[:-1] != where.shape[:-1]:
                raise UnsupportedModel(
                    f"activations have the shape {tuple(activation.shape)} instead of examples × tokens × hidden",
                    where="input of the attention's or output of the FFN's last matrix",
                    todo="load the model with attention sdpa or eager",
                )
            # Gradients in bf16 are exact enough; their sums over hundreds of products would not be.
            products = _at_least_fp32(gradient) * _at_least_fp32(activation)
            parts = products.unflatten(-1, (count, -1)).sum(-1)
            if where is not None:
                parts = parts.masked_fill(~where, 0.0)
            columns.append((parts.abs() if per_token else parts).sum(1, dtype=torch.float64))
    return torch.cat(columns, dim=1)


def _in_order(activations: Activations, layers: Sequence[GatedLayer]) -> list[Tensor]:
    """The contexts of all layers, then the outputs of all FFNs."""
    kept = (activations.contexts, activations.outputs)
    if any(len(found) != len(layers) for found in kept):
        raise UnsupportedModel(
            "a layer did not take part in the forward pass",
            where=f"{len(activations.contexts)} attentions and {len(activations.outputs)} FFNs of {len(layers)}",
            todo="models that skip layers cannot be scored",
        )
    return [found[index] for found in kept for index in range(len(layers))]


def _at_least_fp32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
