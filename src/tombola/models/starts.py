"""Starts that are not the pre-trained one: the shuffled control m⊙θ0″ of SPEC 2.3.

The re-initialised control m⊙θ0′ needs the model class and so is made by ``build_model(...,
reinit_seed=...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch

from tombola import streams
from tombola.errors import MaskMismatch, RecipeError, nearest
from tombola.models.anatomy import Anatomy

SHUFFLES = ("layers", "within")


def shuffled(
    state: Mapping[str, torch.Tensor],
    anatomy: Anatomy,
    seed: int,
    how: Literal["layers", "within"] = "layers",
) -> dict[str, torch.Tensor]:
    """A copy of ``state`` with the same values in other places.

    ``layers`` permutes whole layers as blocks, biases and LayerNorm included, so that at least two change
    places where there are two; ``within`` permutes the values inside each prunable matrix. All else stays.
    """
    if how not in SHUFFLES:
        raise RecipeError(f"no shuffle is called {how!r}", where="shuffle", todo=nearest(how, SHUFFLES))
    copy = {name: weight.detach().clone() for name, weight in state.items()}
    if how == "layers":
        return copy | _layers_permuted(copy, anatomy, seed)
    return copy | _values_permuted(copy, anatomy, seed)


def layer_order(count: int, seed: int) -> list[int]:
    """Which layer's weights each layer gets: uniform among all orders but the one that changes nothing."""
    random = streams.generator(seed, "shuffle", "layers")
    order = unchanged = list(range(count))
    while count > 1 and order == unchanged:
        order = torch.randperm(count, generator=random).tolist()
    return order


def _layers_permuted(
    state: Mapping[str, torch.Tensor], anatomy: Anatomy, seed: int
) -> dict[str, torch.Tensor]:
    order = layer_order(len(anatomy.layers), seed)
    moved: dict[str, torch.Tensor] = {}
    for place, donor in zip(anatomy.layers, (anatomy.layers[index] for index in order), strict=True):
        for name in [name for name in state if name.startswith(f"{place.path}.")]:
            source = donor.path + name.removeprefix(place.path)
            if source not in state or state[source].shape != state[name].shape:
                raise MaskMismatch(
                    f"layers {place.index} and {donor.index} differ in shape and cannot change places",
                    where=f"parameters {name} and {source}",
                    todo="shuffle `within` instead",
                )
            moved[name] = state[source].clone()
    return moved


def _values_permuted(
    state: Mapping[str, torch.Tensor], anatomy: Anatomy, seed: int
) -> dict[str, torch.Tensor]:
    moved: dict[str, torch.Tensor] = {}
    for name in anatomy.prunable_names:
        if name not in state:
            raise MaskMismatch("the start lacks a prunable weight", where=f"parameter {name}")
        weight = state[name]
        order = torch.randperm(weight.numel(), generator=streams.generator(seed, "shuffle", "within", name))
        moved[name] = weight.reshape(-1)[order.to(weight.device)].reshape(weight.shape)
    return moved
