"""StructureMask: which attention heads and FFNs of an encoder are kept (ξ, ν ∈ {0,1}; Super tickets, SPEC 3.1).

A ticket of whole parts is small enough to be read by people: its JSON has a line a layer, with a digit a head.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tombola.canonical import digest
from tombola.errors import CorruptArtifact, MaskMismatch, UsageError

FORMAT = 1
KIND = "structure"
#: No encoder comes near these: a stranger's file must not ask for the whole machine.
MOST_LAYERS = 4096
MOST_HEADS = 4096
DIGITS = re.compile(r"[01]+", re.ASCII)


@dataclass(frozen=True)
class StructureMask:
    """One gate a head (ξ) and one an FFN (ν); True keeps the part.

    The lengths are those of the *full* model, where every layer has heads; a mask may leave a layer none.
    """

    heads: tuple[tuple[bool, ...], ...]
    ffns: tuple[bool, ...]

    def __post_init__(self) -> None:
        # Lists are frozen on the way in, so that nobody can change a mask through what it was made from.
        object.__setattr__(self, "heads", tuple(_gates(row, f"heads of layer {i}") for i, row in _rows(self)))
        object.__setattr__(self, "ffns", _gates(self.ffns, "ffns"))
        if len(self.heads) != len(self.ffns):
            raise MaskMismatch(
                f"the mask has heads of {len(self.heads)} layers and FFNs of {len(self.ffns)}",
                where="ffns",
                todo="give one FFN a layer",
            )

    @classmethod
    def full(cls, heads_per_layer: Sequence[int]) -> StructureMask:
        """The mask that keeps everything of a model with so many heads in each layer."""
        for layer, count in enumerate(heads_per_layer):
            if type(count) is not int or count < 1:
                raise MaskMismatch(
                    f"{count!r} is no number of heads",
                    where=f"layer {layer}",
                    todo="every layer of a full model has at least one attention head",
                )
        return cls(tuple((True,) * count for count in heads_per_layer), (True,) * len(heads_per_layer))

    def __str__(self) -> str:
        heads = f"heads {self.heads_kept}/{self.head_count}"
        return f"{self.layers} layers · {heads} · FFN {self.ffns_kept}/{self.ffn_count}"

    # --- counts -----------------------------------------------------------

    @property
    def layers(self) -> int:
        return len(self.heads)

    @property
    def heads_per_layer(self) -> tuple[int, ...]:
        """How many heads each layer of the full model has."""
        return tuple(len(row) for row in self.heads)

    @property
    def head_count(self) -> int:
        """All heads of the full model."""
        return sum(self.heads_per_layer)

    @property
    def heads_kept(self) -> int:
        return sum(map(sum, self.heads))

    @property
    def heads_removed(self) -> int:
        return self.head_count - self.heads_kept

    @property
    def ffn_count(self) -> int:
        """All FFNs of the full model, one a layer."""
        return len(self.ffns)

    @property
    def ffns_kept(self) -> int:
        return sum(self.ffns)

    @property
    def ffns_removed(self) -> int:
        return self.ffn_count - self.ffns_kept

    @property
    def share_of_heads_removed(self) -> float:
        """Removed heads / all heads. No share of weights: that is ``StructureSizes.remaining_weight``."""
        return self.heads_removed / self.head_count

    @property
    def share_of_ffns_removed(self) -> float:
        """Removed FFNs / all FFNs. No share of weights either."""
        return self.ffns_removed / self.ffn_count

    @property
    def keeps_everything(self) -> bool:
        return self.heads_removed == self.ffns_removed == 0

    @property
    def removes_everything(self) -> bool:
        """Neither a head nor an FFN is left in any layer."""
        return self.heads_kept == self.ffns_kept == 0

    @property
    def layers_without_heads(self) -> tuple[int, ...]:
        return tuple(layer for layer, row in enumerate(self.heads) if not any(row))

    @property
    def layers_without_ffn(self) -> tuple[int, ...]:
        return tuple(layer for layer, kept in enumerate(self.ffns) if not kept)

    def kept_heads(self, layer: int) -> tuple[int, ...]:
        """The positions, in the full model, of the heads that this layer keeps."""
        if not 0 <= layer < self.layers:
            raise MaskMismatch(
                f"the mask has no layer {layer}",
                where="layer",
                todo=f"layers count from 0 to {self.layers - 1}",
            )
        return tuple(head for head, kept in enumerate(self.heads[layer]) if kept)

    # --- algebra ----------------------------------------------------------

    def __and__(self, other: StructureMask) -> StructureMask:
        return self._combine(other, lambda mine, theirs: mine and theirs)

    def __or__(self, other: StructureMask) -> StructureMask:
        return self._combine(other, lambda mine, theirs: mine or theirs)

    def __invert__(self) -> StructureMask:
        heads = tuple(tuple(not kept for kept in row) for row in self.heads)
        return StructureMask(heads, tuple(not kept for kept in self.ffns))

    def __le__(self, other: StructureMask) -> bool:
        """Whether every part kept here is kept there too: the levels of one search are nested."""
        if not isinstance(other, StructureMask):
            return NotImplemented
        self._require_same_parts(other)
        return all(theirs or not mine for mine, theirs in zip(self._parts(), other._parts(), strict=True))

    def overlap(self, other: StructureMask, of: str = "kept") -> float:
        """|mᵢ ∩ mⱼ| / |mᵢ ∪ mⱼ| of the kept or of the removed parts; a head counts as much as an FFN.

        Two empty sets are the same set: 1.
        """
        if of not in ("kept", "removed"):
            raise UsageError(f"overlap of '{of}' has no meaning", where="of", todo="give 'kept' or 'removed'")
        self._require_same_parts(other)
        wanted = of == "kept"
        pairs = [
            (mine is wanted, theirs is wanted)
            for mine, theirs in zip(self._parts(), other._parts(), strict=True)
        ]
        either = sum(mine or theirs for mine, theirs in pairs)
        return sum(mine and theirs for mine, theirs in pairs) / either if either else 1.0

    # --- against a model --------------------------------------------------

    def check_against(self, heads_per_layer: Sequence[int], where: str = "") -> None:
        """Refuse a mask of a model with other layers or other heads."""
        at = f"{where}: " if where else ""
        if self.layers != len(heads_per_layer):
            raise MaskMismatch(
                f"the mask is about {self.layers} layers, the model has {len(heads_per_layer)}",
                where=where or "layers",
                todo="use the model that the mask was found on",
            )
        for layer, (mine, theirs) in enumerate(zip(self.heads_per_layer, heads_per_layer, strict=True)):
            if mine != theirs:
                raise MaskMismatch(
                    f"the mask is about {mine} heads in a layer that has {theirs}",
                    where=f"{at}layer {layer}",
                    todo="use the model that the mask was found on",
                )

    def check_leaves_something(self, where: str = "") -> None:
        """Refuse a mask after which no attention and no FFN is left: it is a mistake, not a ticket."""
        if self.removes_everything:
            raise MaskMismatch(
                f"the mask removes all {self.head_count} heads and all {self.ffn_count} FFNs",
                where=where or "mask",
                todo="keep at least one head or one FFN",
            )

    # --- as text ----------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """A dictionary a layer: a digit a head (1 keeps it), and whether the FFN stays."""
        layers = [
            {"heads": "".join("1" if kept else "0" for kept in row), "ffn": ffn}
            for row, ffn in zip(self.heads, self.ffns, strict=True)
        ]
        return {"format": FORMAT, "kind": KIND, "layers": layers}

    @classmethod
    def from_json(cls, value: Any, where: str = "") -> StructureMask:
        """The mask that ``to_json`` gave; whatever a stranger may have written instead is refused."""
        place = where or "structure mask"
        layers = _layers_of(value, place)
        for layer, entry in enumerate(layers):
            _check_layer(entry, f"{place}: layer {layer}")
        heads = tuple(tuple(digit == "1" for digit in entry["heads"]) for entry in layers)
        return cls(heads, tuple(entry["ffn"] for entry in layers))

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON."""
        return digest(self.to_json())

    # --- inside -----------------------------------------------------------

    def _parts(self) -> Iterator[bool]:
        for row in self.heads:
            yield from row
        yield from self.ffns

    def _combine(self, other: StructureMask, operation: Callable[[bool, bool], bool]) -> StructureMask:
        if not isinstance(other, StructureMask):
            return NotImplemented
        self._require_same_parts(other)
        heads = tuple(
            tuple(map(operation, mine, theirs)) for mine, theirs in zip(self.heads, other.heads, strict=True)
        )
        return StructureMask(heads, tuple(map(operation, self.ffns, other.ffns)))

    def _require_same_parts(self, other: StructureMask) -> None:
        if self.heads_per_layer != other.heads_per_layer:
            raise MaskMismatch(
                f"a mask with the heads {_brief(self.heads_per_layer)} a layer does not go together"
                f" with one of {_brief(other.heads_per_layer)}",
                where="heads",
                todo="compare masks of one model",
            )


def _rows(mask: StructureMask) -> Iterator[tuple[int, object]]:
    if not isinstance(mask.heads, (tuple, list)):
        raise MaskMismatch(
            f"heads are given as {type(mask.heads).__name__}", where="heads", todo="give one tuple a layer"
        )
    return enumerate(mask.heads)


def _gates(values: object, where: str) -> tuple[bool, ...]:
    """A tuple of true booleans: 0 and 1, or a tensor's elements, may mean scores as well as gates."""
    if not isinstance(values, (tuple, list)):
        raise MaskMismatch(f"gates are given as {type(values).__name__}", where=where, todo="give a tuple")
    if not values:
        raise MaskMismatch("a model without any of these has nothing to keep or to remove", where=where)
    for position, value in enumerate(values):
        if type(value) is not bool:
            raise MaskMismatch(
                f"a gate is True or False, not {repr(value)[:40]}", where=f"{where}, position {position}"
            )
    return tuple(values)


def _layers_of(value: Any, where: str) -> list[Any]:
    if not isinstance(value, dict):
        raise CorruptArtifact(f"a structure mask is a JSON object, not {type(value).__name__}", where=where)
    version = value.get("format")
    if type(version) is not int or version != FORMAT:
        newer = type(version) is int and version > FORMAT
        raise CorruptArtifact(
            f"the structure mask has format {repr(version)[:40]}, this tombola reads {FORMAT}",
            where=where,
            todo="it was made by a newer tombola: upgrade" if newer else "",
        )
    if value.get("kind") != KIND:
        raise CorruptArtifact(f"the mask's kind is {repr(value.get('kind'))[:40]}, not '{KIND}'", where=where)
    _check_keys(value, {"format", "kind", "layers"}, where)
    layers = value["layers"]
    if not isinstance(layers, list) or not 1 <= len(layers) <= MOST_LAYERS:
        raise CorruptArtifact(f"the mask's layers are not a list of 1 to {MOST_LAYERS}", where=where)
    return layers


def _check_layer(entry: Any, where: str) -> None:
    if not isinstance(entry, dict):
        raise CorruptArtifact(f"a layer is a JSON object, not {type(entry).__name__}", where=where)
    _check_keys(entry, {"heads", "ffn"}, where)
    heads = entry["heads"]
    if not (isinstance(heads, str) and len(heads) <= MOST_HEADS and DIGITS.fullmatch(heads)):
        raise CorruptArtifact(
            f"its heads are {repr(heads)[:40]}, not a text of 1 to {MOST_HEADS} digits 0 or 1", where=where
        )
    if type(entry["ffn"]) is not bool:
        raise CorruptArtifact(f"its FFN is {repr(entry['ffn'])[:40]}, not true or false", where=where)


def _check_keys(value: dict[Any, Any], due: set[str], where: str) -> None:
    """Every key and no other: what a reader would skip might have been meant."""
    for key in sorted(map(str, value.keys() ^ due)):
        what = "is missing" if key in due else "means nothing here"
        raise CorruptArtifact(f"the key '{key[:40]}' {what}", where=where)


def _brief(heads_per_layer: tuple[int, ...]) -> str:
    first = ", ".join(map(str, heads_per_layer[:6]))
    return first if len(heads_per_layer) <= 6 else f"{first} … ({len(heads_per_layer)} layers)"
