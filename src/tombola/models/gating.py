"""The gates of Super tickets (SPEC 3.1) on the full model: MHA = Σ ξ_h·H_h(x)·W^O_h, FFN = ν·FFN(z).

This computes what ``models/surgery.py`` does with smaller matrices, in the other way: each head's context is
multiplied by ξ in front of the attention output, each FFN's output by ν before dropout and residual.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from tombola.errors import UnsupportedModel
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import anatomy_of, backbone_of, module_at
from tombola.models.families import family_of


@contextmanager
def gated(model: nn.Module, mask: StructureMask) -> Iterator[nn.Module]:
    """``model`` with the gates of ``mask`` while the context lasts; no hook is left behind, after errors neither.

    Weights behind a closed gate get a gradient of zero. A backward pass with activation checkpointing computes
    layers again and so belongs inside the context.
    """
    anatomy, backbone = anatomy_of(model), backbone_of(model)
    if anatomy.structure is not None:
        raise UnsupportedModel(
            "gates are for the full model; this one has been made smaller",
            where=type(model).__name__,
            todo="take the full model, or shrink this one further",
        )
    mask.check_against(anatomy.heads_per_layer, where=type(model).__name__)
    matrices = family_of(anatomy.family).matrices
    with ExitStack() as hooks:
        for part in anatomy.layers:
            layer = module_at(backbone, part.path)
            if not all(mask.heads[part.index]):
                gates = torch.tensor(mask.heads[part.index]).repeat_interleave(part.head_size)
                attention_output = module_at(layer, matrices["attention_output"])
                hooks.callback(attention_output.register_forward_pre_hook(_Heads(gates)).remove)
            if not mask.ffns[part.index]:
                output = module_at(layer, matrices["output"])
                hooks.callback(output.register_forward_hook(_closed).remove)
        yield model


class _Heads:
    """Multiplies the contexts of one layer's heads, which lie side by side, by their gates."""

    def __init__(self, gates: torch.Tensor) -> None:
        self.gates = gates

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        context = inputs[0]
        return (context * self.gates.to(context.device, context.dtype), *inputs[1:])


def _closed(module: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
    return output * 0.0
