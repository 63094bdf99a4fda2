"""What stands in a layer where parts were removed, so that transformers' own layer code goes on working (SPEC 3.2).

None of them has a weight of its own: what they hold was in the layer before, under the same name.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tombola.errors import UnsupportedModel
from tombola.models.families.family import StandIn


class BiasOnly(nn.Module):
    """The attention output of a layer without heads: all contexts are zero, and the bias stays."""

    bias: nn.Parameter | None

    def __init__(self, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.register_parameter("bias", bias)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        if self.bias is None:
            return hidden_states.new_zeros(())
        return self.bias.expand(hidden_states.shape)


class Headless(nn.Module):
    """An attention module without heads: no query, no key, no value, no kernel.

    Where the attention output lies inside the module it stays inside under its name, with its dropout;
    elsewhere the hidden states are handed on to it for their shape. There are no attention probabilities:
    ``output_attentions`` has one entry less for each such layer.
    """

    def __init__(self, inside: dict[str, nn.Module], layer_index: int | None) -> None:
        super().__init__()
        self.layer_idx = layer_index
        for name, module in inside.items():
            self.add_module(name, module)

    def forward(
        self, hidden_states: torch.Tensor, *others: Any, past_key_values: Any = None, **named: Any
    ) -> tuple[torch.Tensor, None]:
        if past_key_values is not None:
            # A decoder counts the positions so far in its first layer's cache, which must not stay empty.
            past = getattr(past_key_values, "self_attention_cache", past_key_values)
            places = hidden_states.new_zeros(hidden_states.shape[0], 1, hidden_states.shape[1], 1)
            past.update(places, places, self.layer_idx)
        answer = hidden_states
        for module in self.children():
            answer = module(answer)
        return answer, None


class Nothing(nn.Module):
    """A removed FFN in front of a residual: zero is added."""

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return hidden_states.new_zeros(())


class ResidualNorm(nn.Module):
    """The end of a post-LN layer whose FFN is gone: LayerNorm(attention output), without bias and dropout."""

    def __init__(self, name: str, norm: nn.Module) -> None:
        super().__init__()
        self.add_module(name, norm)

    def forward(self, hidden_states: torch.Tensor, input_tensor: torch.Tensor) -> torch.Tensor:
        (norm,) = self.children()
        return norm(input_tensor)


def stand_in_for(kind: StandIn, removed: nn.Module) -> nn.Module:
    """The module that takes the place of ``removed`` once its FFN is gone."""
    if kind == "same":
        return nn.Identity()
    if kind == "nothing":
        return Nothing()
    norms = [(name, child) for name, child in removed.named_children() if isinstance(child, nn.LayerNorm)]
    if len(norms) != 1:
        raise UnsupportedModel(
            f"the module has {len(norms)} LayerNorms where one must stay without the FFN",
            where=type(removed).__name__,
            todo="see docs/add-a-family.md",
        )
    return ResidualNorm(*norms[0])
