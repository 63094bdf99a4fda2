"""What a model offers to prune (SPEC 2.1), under names that are relative to its backbone (DESIGN 5).

One mask fits the classification, question answering and masked-LM classes of a model because every name
here has the class's prefix and any wrapper's prefix stripped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from tombola.errors import UnsupportedModel
from tombola.masks.structure_mask import StructureMask
from tombola.masks.structure_sizes import StructureSizes
from tombola.models.families import family_of
from tombola.models.families.family import ATTENTION_ROLES, FEED_FORWARD_ROLES, Family, Role, Sizes

#: Attribute of a built model: names of optional backbone weights that the checkpoint lacked (see build.py).
DRAWN = "tombola_drawn"
#: Attribute of a backbone that surgery has made smaller: the mask of what is left (see surgery.py).
STRUCTURE = "tombola_structure"
#: Names under which wrappers hold a module: torch.compile, activation checkpointing, FSDP. DDP is at the
#: top only.
_WRAPPED = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


@dataclass(frozen=True)
class Matrix:
    """One prunable matrix."""

    name: str  # backbone-relative name of the weight
    role: Role
    layer: int | None  # None for the pooler
    shape: tuple[int, int]  # as stored
    transposed: bool  # stored (inputs, outputs), as GPT-2's Conv1D does


@dataclass(frozen=True)
class LayerParts:
    """One layer as it is: its heads, and the weights of its attention and of its feed-forward network (FFN).

    Surgery may have left it fewer heads, none, or no FFN; then the names are missing too.
    """

    index: int
    path: str  # module path of the layer, relative to the backbone
    heads: int
    head_size: int
    inner: int  # width of the FFN, 0 without one
    attention: tuple[str, ...]
    feed_forward: tuple[str, ...]


@dataclass(frozen=True)
class Anatomy:
    """What a model offers: its prunable matrices in model order, its layers, its split into parts."""

    family: str
    prefix: str  # the class's base_model_prefix
    matrices: tuple[Matrix, ...]
    layers: tuple[LayerParts, ...]
    optional: tuple[str, ...]  # prunable, but missing from some classes of the family: the pooler
    drawn: tuple[
        str, ...
    ]  # backbone weights the checkpoint lacked: drawn with the task head, belonging to it
    embeddings: tuple[str, ...]  # names of the embedding part's weights
    parameters: int  # weights of the whole backbone, embeddings included, drawn ones not
    encoder: int  # weights of all layers
    sizes: Sizes  # of the configuration, so of the full model
    structure: StructureMask | None = None  # what surgery has left of the full model, if it was there

    @cached_property
    def prunable_names(self) -> tuple[str, ...]:
        return tuple(matrix.name for matrix in self.matrices)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        return {matrix.name: matrix.shape for matrix in self.matrices}

    @cached_property
    def size(self) -> int:
        """Prunable weights, the N of every sparsity."""
        return sum(math.prod(matrix.shape) for matrix in self.matrices)

    @cached_property
    def size_without_optional(self) -> int:
        return sum(math.prod(m.shape) for m in self.matrices if m.name not in self.optional)

    @cached_property
    def heads_per_layer(self) -> tuple[int, ...]:
        """The heads that are there. Masks are about the full model's: ``structure_sizes.heads``."""
        return tuple(layer.heads for layer in self.layers)

    @cached_property
    def structure_sizes(self) -> StructureSizes:
        """What planning needs to know of a full model: how much its heads and FFNs weigh (SPEC 3.3).

        The paper's head has four matrices; a DeBERTa with projections of positions loses a little more with it.
        """
        if self.structure is not None:
            raise UnsupportedModel(
                "the sizes of the full model cannot be read off a model that was made smaller",
                where=f"{self.family} model with {self.structure}",
                todo="ask the full model",
            )
        return StructureSizes(
            hidden=self.sizes.hidden,
            head_size=self.sizes.head_size,
            inner=self.sizes.inner,
            heads=self.heads_per_layer,
            parameters=self.parameters,
            encoder=self.encoder,
            ffn_matrices=3 if self.sizes.gated else 2,
        )


def anatomy_of(model: nn.Module) -> Anatomy:
    """The anatomy of a model of any class of a known family, or of its backbone; checked weight by weight."""
    inner = unwrapped(model)
    config: Any = getattr(inner, "config", None)
    family = family_of(_base_type(config), where=type(inner).__name__)
    weights = {name: tuple(weight.shape) for name, weight in backbone_parameters(model).items()}
    structure: StructureMask | None = getattr(backbone_of(model), STRUCTURE, None)
    sizes = family.sizes(config)
    matrices: list[Matrix] = []
    layers: list[LayerParts] = []
    for index in range(sizes.layers):
        here = _sizes_of_layer(sizes, structure, index)
        path = family.layer.format(index)
        names: dict[Role, str] = {
            role: f"{path}.{inside}.weight" for role, inside in family.matrices.items() if here.has(role)
        }
        for role, name in names.items():
            shape = _stored_shape(family, here.shape(role))
            _check(weights, name, shape, family)
            matrices.append(Matrix(name, role, index, shape, family.transposed))
        attention = tuple(name for role, name in names.items() if role in ATTENTION_ROLES)
        feed_forward = tuple(name for role, name in names.items() if role in FEED_FORWARD_ROLES)
        layers.append(
            LayerParts(index, path, here.heads, here.head_size, here.inner, attention, feed_forward)
        )
    optional: tuple[str, ...] = ()
    if family.pooler and (name := f"{family.pooler}.weight") in weights:
        shape = _stored_shape(family, sizes.shape("pooler"))
        _check(weights, name, shape, family)
        matrices.append(Matrix(name, "pooler", None, shape, family.transposed))
        optional = (name,)
    _refuse_unknown_matrices(weights, {m.name for m in matrices}, family)
    return Anatomy(
        family=family.model_type,
        prefix=_prefix(inner),
        matrices=tuple(matrices),
        layers=tuple(layers),
        optional=optional,
        drawn=drawn_names(model),
        embeddings=tuple(n for n in weights if n.startswith(tuple(f"{path}." for path in family.embeddings))),
        parameters=sum(math.prod(shape) for shape in weights.values()),
        encoder=sum(
            math.prod(shape)
            for name, shape in weights.items()
            if name.startswith(tuple(f"{layer.path}." for layer in layers))
        ),
        sizes=sizes,
        structure=structure,
    )


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DataParallel, DistributedDataParallel, torch.compile and the like."""
    while True:
        for attribute in ("module", *_WRAPPED):
            inner = model._modules.get(attribute)
            if inner is not None and len(model._modules) == 1:
                model = inner
                break
        else:
            return model


def backbone_of(model: nn.Module) -> nn.Module:
    """The encoder: the module all classes of a family share. A backbone is its own."""
    inner = unwrapped(model)
    backbone = inner._modules.get(_prefix(inner))
    return inner if backbone is None else unwrapped(backbone)


def module_at(module: nn.Module, path: str) -> nn.Module:
    """The module at ``path``, looking through wrappers on the way; the empty path is ``module`` itself."""
    module = unwrapped(module)
    for name in path.split(".") if path else ():
        module = unwrapped(module.get_submodule(name))
    return module


def relative_name(name: str, prefix: str) -> str:
    """A parameter's name as masks spell it: without wrappers and without the class's prefix."""
    parts = [part for part in name.split(".") if part not in _WRAPPED]
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    if len(parts) > 1 and parts[0] == prefix:
        parts = parts[1:]
    return ".".join(parts)


def backbone_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The live weights of the backbone by relative name; tied ones once; drawn ones belong to the head."""
    backbone, drawn = backbone_of(model), set(drawn_names(model))
    named = {relative_name(name, ""): weight for name, weight in backbone.named_parameters()}
    return {name: weight for name, weight in named.items() if name not in drawn}


def head_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The live weights that are not the backbone's, by their full names (without wrappers)."""
    backbone = {id(weight) for weight in backbone_parameters(model).values()}
    named = unwrapped(model).named_parameters()
    return {relative_name(name, ""): weight for name, weight in named if id(weight) not in backbone}


def drawn_names(model: nn.Module) -> tuple[str, ...]:
    """Optional backbone weights that the checkpoint lacked and that were drawn with the task head."""
    return tuple(getattr(unwrapped(model), DRAWN, ()))


def snapshot(parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies on the CPU that share no memory with what goes on training (trap 1)."""
    return {name: weight.detach().to("cpu", copy=True) for name, weight in parameters.items()}


def _prefix(model: nn.Module) -> str:
    return str(getattr(model, "base_model_prefix", ""))


def _base_type(config: Any) -> str | None:
    """The family of a configuration; our own deployed classes name the one they are made of (DESIGN 5)."""
    ours = getattr(config, "tombola", None)
    if isinstance(ours, Mapping) and "base_model_type" in ours:
        return ours["base_model_type"]
    return getattr(config, "model_type", None)


def _sizes_of_layer(sizes: Sizes, structure: StructureMask | None, index: int) -> Sizes:
    if structure is None:
        return sizes
    kept = len(structure.kept_heads(index))
    return replace(sizes, heads=kept, inner=sizes.inner if structure.ffns[index] else 0)


def _stored_shape(family: Family, shape: tuple[int, int]) -> tuple[int, int]:
    return (shape[1], shape[0]) if family.transposed else shape


def _check(
    weights: Mapping[str, tuple[int, ...]], name: str, expected: tuple[int, int], family: Family
) -> None:
    where = f"parameter {name} of a {family.model_type} model"
    if name not in weights:
        raise UnsupportedModel(
            "a matrix that models of this family have is missing",
            where=where,
            todo="load it with transformers' own class; adapters that replace layers are not supported",
        )
    if weights[name] != expected:
        raise UnsupportedModel(
            f"a matrix has the shape {weights[name]} where the configuration says {expected}",
            where=where,
            todo="models that were made smaller by hand are not supported",
        )


def _refuse_unknown_matrices(weights: Mapping[str, tuple[int, ...]], known: set[str], family: Family) -> None:
    """A matrix inside a layer that no role covers (cross-attention, an adapter) would silently stay dense."""
    inside = re.compile(re.escape(family.layer).replace(r"\{\}", r"\d+") + r"\.")
    for name, shape in weights.items():
        if len(shape) > 1 and inside.match(name) and name not in known:
            raise UnsupportedModel(
                f"a matrix inside a layer has no role in the {family.model_type} family",
                where=f"parameter {name}",
                todo="take the plain encoder: no cross-attention, no adapters, no relative positions",
            )
