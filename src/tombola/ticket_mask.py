"""The two kinds of masks a ticket may hold, and what differs between them: file, checks, what ``ticket.json`` says.

``weights``: single weights of the prunable matrices (WeightMask). ``structure``: whole heads and FFNs
(StructureMask); such a ticket says the sizes of its full model, and every share it prints must follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

from tombola.errors import CorruptArtifact, MaskMismatch, UsageError, nearest
from tombola.files import read_json, write_json
from tombola.masks.packing import load_mask, save_mask
from tombola.masks.structure_mask import StructureMask
from tombola.masks.structure_sizes import StructureSizes
from tombola.masks.weight_mask import WeightMask
from tombola.ticket_folder import MASK, STRUCTURE

#: No model has a size near this; a stranger's number must not grow into products of a million digits.
LARGEST_SIZE = 2**50
SIZES = "sizes"


class MaskForm(Protocol):
    """How one kind of mask is checked, kept in a folder, and described."""

    kind: str
    file: str

    def check(self, mask: Any, model: Mapping[str, Any]) -> None: ...
    def save(self, path: Path, mask: Any) -> None: ...
    def load(self, path: Path) -> WeightMask | StructureMask: ...
    def described(self, mask: Any, model: Mapping[str, Any]) -> dict[str, Any]: ...


class WeightForm:
    """A mask of single weights, its bits packed."""

    kind, file = "weights", MASK

    def check(self, mask: WeightMask, model: Mapping[str, Any]) -> None:
        if mask.kept == 0:
            raise MaskMismatch(
                "the mask keeps nothing: that is no ticket", where="mask", todo="prune less than everything"
            )

    def save(self, path: Path, mask: WeightMask) -> None:
        save_mask(path, mask)

    def load(self, path: Path) -> WeightMask:
        return load_mask(path)

    def described(self, mask: WeightMask, model: Mapping[str, Any]) -> dict[str, Any]:
        shapes = mask.shapes
        return {
            "kind": self.kind,
            "digest": mask.digest(),
            "size": mask.size,
            "zeros": mask.zeros,
            "sparsity": mask.sparsity,
            "sparsity_without_optional": sparsity_without_optional(mask, model),
            "tensors": {
                name: {"shape": list(shape), "sparsity": mask.sparsity_of(name)}
                for name, shape in shapes.items()
            },
        }


class StructureForm:
    """A mask of whole heads and FFNs, in JSON that people can read."""

    kind, file = "structure", STRUCTURE

    def check(self, mask: StructureMask, model: Mapping[str, Any]) -> None:
        mask.check_leaves_something()
        mask.check_against(sizes_in(model).heads, where=f"model.{SIZES}")

    def save(self, path: Path, mask: StructureMask) -> None:
        write_json(path, mask.to_json())

    def load(self, path: Path) -> StructureMask:
        return StructureMask.from_json(read_json(path), where=str(path))

    def described(self, mask: StructureMask, model: Mapping[str, Any]) -> dict[str, Any]:
        sizes = sizes_in(model)
        return {
            "kind": self.kind,
            "digest": mask.digest(),
            "layers": mask.layers,
            "heads": {"kept": mask.heads_kept, "removed": mask.heads_removed},
            "ffns": {"kept": mask.ffns_kept, "removed": mask.ffns_removed},
            "remaining_weight": sizes.remaining_weight(mask),
            "remaining_of_encoder": sizes.remaining_of_encoder(mask),
        }


FORMS: dict[str, MaskForm] = {form.kind: form for form in (WeightForm(), StructureForm())}


def form_of(mask: object) -> MaskForm:
    """The form of a mask; anything else is no mask."""
    if isinstance(mask, WeightMask):
        return FORMS["weights"]
    if isinstance(mask, StructureMask):
        return FORMS["structure"]
    raise MaskMismatch(
        f"a ticket holds a WeightMask or a StructureMask, not a {type(mask).__name__}", where="mask"
    )


def form_named(described: Any, where: str) -> MaskForm:
    """The form that the ``mask`` section of a ``ticket.json`` names."""
    kind = described.get("kind") if isinstance(described, dict) else None
    if not isinstance(kind, str):
        raise CorruptArtifact("ticket.json does not say the kind of its mask", where=where)
    if kind not in FORMS:
        raise CorruptArtifact(
            f"the ticket's mask is of a kind that this tombola does not know: {ascii(kind)[:80]}",
            where=where,
            todo=f"upgrade, if a newer tombola made it: pip install --upgrade tombola; {nearest(kind, list(FORMS))}",
        )
    return FORMS[kind]


def sizes_in(model: Mapping[str, Any]) -> StructureSizes:
    """The sizes of the full model that a structured ticket's ``model`` section says."""
    said = model.get(SIZES)
    wanted = {field.name for field in fields(StructureSizes)}
    if not isinstance(said, Mapping) or said.keys() != wanted or not isinstance(said["heads"], (list, tuple)):
        raise MaskMismatch(
            f"a structured ticket says the sizes of its full model: {', '.join(sorted(wanted))}",
            where=f"model.{SIZES}",
            todo='give model={..., "sizes": dataclasses.asdict(StructureSizes(...))}',
        )
    numbers = [*said["heads"], *(value for name, value in said.items() if name != "heads")]
    if any(isinstance(value, int) and value > LARGEST_SIZE for value in numbers):
        raise UsageError("no model has a size like this", where=f"model.{SIZES}")
    return StructureSizes(**{**said, "heads": tuple(said["heads"])})


def sparsity_without_optional(mask: WeightMask, model: Mapping[str, Any]) -> float:
    """Sparsity without the declared optional part (the pooler): what models of other classes share."""
    others = [name for name in mask.names if name not in model.get("optional", ())]
    return mask.restrict(others).sparsity if others else mask.sparsity
