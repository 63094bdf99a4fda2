"""Physical removal of attention heads and FFNs (Super tickets; SPEC 3.2): the same function with smaller matrices.

A head takes its rows of query, key and value (biases included) and its columns of the attention output along.
The attention output's bias stays, also where a layer has no head left. A removed FFN leaves LayerNorm(attention
output) in a post-LN layer, and the bare residual in a pre-LN one. ``models/gating.py`` computes the same with
gates on the full model; the tests compare the two.
"""

from __future__ import annotations

import torch
from torch import nn

from tombola.errors import MaskMismatch
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import STRUCTURE, LayerParts, anatomy_of, backbone_of, module_at
from tombola.models.families import family_of
from tombola.models.families.family import HEAD_BLOCKS, Family
from tombola.models.stand_ins import BiasOnly, Headless, stand_in_for


def shrink(model: nn.Module, mask: StructureMask) -> None:
    """Remove from ``model``, in place, what ``mask`` does not keep; the kept weights are bitwise copies.

    ``model`` is of any class of a known family, or its backbone, on any device, ``meta`` included. The mask is
    always about the *full* model: a model that was shrunk before takes a mask that keeps no more than the one
    it has. The removed weights' memory is free afterwards. Optimizers and wrappers (DDP) come later: they hold
    on to the parameters they were given.
    """
    anatomy = anatomy_of(model)
    where = f"{type(model).__name__}"
    present = anatomy.structure or StructureMask.full(anatomy.heads_per_layer)
    mask.check_against(present.heads_per_layer, where=where)
    mask.check_leaves_something(where=where)
    _refuse_regrowth(mask, present)
    family, backbone = family_of(anatomy.family), backbone_of(model)
    with torch.no_grad():
        for part in anatomy.layers:
            layer = module_at(backbone, part.path)
            _shrink_attention(layer, part, family, mask, present)
            if part.inner and not mask.ffns[part.index]:
                for path, kind in family.surgery.without_ffn.items():
                    _replace(layer, path, stand_in_for(kind, module_at(layer, path)))
    setattr(backbone, STRUCTURE, mask)


def _refuse_regrowth(mask: StructureMask, present: StructureMask) -> None:
    if mask <= present:
        return
    for layer in range(mask.layers):
        back = sorted(set(mask.kept_heads(layer)) - set(present.kept_heads(layer)))
        ffn = mask.ffns[layer] and not present.ffns[layer]
        if back or ffn:
            parts = [f"head {head}" for head in back] + ["the FFN"] * ffn
            raise MaskMismatch(
                f"the mask keeps {', '.join(parts)}, which this model no longer has",
                where=f"layer {layer}",
                todo="shrink the full model instead",
            )


def _shrink_attention(
    layer: nn.Module, part: LayerParts, family: Family, mask: StructureMask, present: StructureMask
) -> None:
    here, kept = present.kept_heads(part.index), mask.kept_heads(part.index)
    if kept == here:
        return
    if not kept:
        _remove_attention(layer, family, part.index)
        return
    attention = module_at(layer, family.surgery.attention)
    heads = torch.tensor([here.index(head) for head in kept])
    entries = (heads[:, None] * part.head_size + torch.arange(part.head_size)).flatten()
    width = len(here) * part.head_size
    for role, path in family.matrices.items():
        if f"{part.path}.{path}.weight" not in part.attention:
            continue
        matrix = module_at(layer, path)
        if role in HEAD_BLOCKS:
            blocks = [entries + block * width for block in range(HEAD_BLOCKS[role])]
            _keep(matrix, torch.cat(blocks), family, outputs=True)
        else:
            _keep(matrix, entries, family, outputs=False)
    for name in family.surgery.head_counts:
        setattr(attention, name, len(kept))
    for name in family.surgery.head_widths:
        setattr(attention, name, len(kept) * part.head_size)


def _remove_attention(layer: nn.Module, family: Family, index: int) -> None:
    surgery, path = family.surgery, family.matrices["attention_output"]
    attention = module_at(layer, surgery.attention)
    only_bias = BiasOnly(getattr(module_at(layer, path), "bias", None))
    inside: dict[str, nn.Module] = {}
    if path.startswith(f"{surgery.attention}."):
        inside[path.removeprefix(f"{surgery.attention}.")] = only_bias
        if surgery.output_dropout is not None:
            inside[surgery.output_dropout] = module_at(attention, surgery.output_dropout)
    else:
        _replace(layer, path, only_bias)
    _replace(layer, surgery.attention, Headless(inside, index))
    if surgery.attention_norm is not None:  # nothing reads it: in DDP it would wait for its gradient forever
        _replace(layer, surgery.attention_norm, nn.Identity())


def _keep(matrix: nn.Module, entries: torch.Tensor, family: Family, *, outputs: bool) -> None:
    """Keep ``entries`` of a linear map's outputs (its bias too) or of its inputs."""
    weight: nn.Parameter = matrix.get_parameter("weight")
    matrix.weight = _selected(weight, entries, dim=int(outputs == family.transposed))
    bias = getattr(matrix, "bias", None)
    if outputs and bias is not None:
        matrix.bias = _selected(bias, entries, dim=0)
    for name in ("out_features", "nf") if outputs else ("in_features", "nx"):
        if hasattr(matrix, name):  # what torch's Linear and transformers' Conv1D say of themselves
            setattr(matrix, name, len(entries))


def _selected(parameter: nn.Parameter, entries: torch.Tensor, dim: int) -> nn.Parameter:
    values = parameter.detach().index_select(dim, entries.to(parameter.device))
    return nn.Parameter(values, requires_grad=parameter.requires_grad)


def _replace(layer: nn.Module, path: str, stand_in: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    stand_in.train(module_at(layer, path).training)
    module_at(layer, parent).add_module(name, stand_in)
