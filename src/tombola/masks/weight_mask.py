"""WeightMask: which prunable weights of a backbone are kept (m ∈ {0,1}^N, SPEC section 1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import torch

from tombola.errors import MaskMismatch, UsageError, nearest

#: Dotted segments of letters, digits and underscores: no path, no blank, nothing to interpret.
SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*", re.ASCII)
LONGEST_NAME = 512


#: A tensor that keeps a smaller share than this lets next to nothing through.
EMPTIED_BELOW = 0.01


class WeightMask(Mapping[str, torch.Tensor]):
    """An immutable mapping: backbone-relative parameter name -> boolean CPU tensor; True keeps the weight.

    Tensors are copied on the way in and on the way out, so neither the maker nor a reader can change a mask,
    and ``digest`` and ``hash`` stay true. Sparsity is the share of *these* entries that are False, not of all
    parameters.
    """

    __slots__ = ("_counts", "_digest", "_entries")

    def __init__(self, entries: Mapping[str, torch.Tensor]) -> None:
        if not entries:
            raise MaskMismatch("a mask needs at least one tensor", where="mask")
        own: dict[str, torch.Tensor] = {}
        for name in sorted(entries):
            _check_entry(name, entries[name])
            own[name] = entries[name].detach().to("cpu", copy=True).contiguous()
        self._entries = own
        self._counts = {name: int(torch.count_nonzero(tensor)) for name, tensor in own.items()}
        self._digest: str | None = None

    @classmethod
    def dense(cls, shapes: Mapping[str, tuple[int, ...]]) -> WeightMask:
        """The mask that keeps everything."""
        return cls({name: torch.ones(tuple(shape), dtype=torch.bool) for name, shape in shapes.items()})

    @classmethod
    def of_weights(cls, state: Mapping[str, torch.Tensor], names: Iterable[str]) -> WeightMask:
        """The mask that weights really have: True where the value is not zero (−0.0 is zero).

        Sparsity is reported from this, not from a mask file: what counts is what the model holds.
        """
        entries: dict[str, torch.Tensor] = {}
        for name in names:
            if name not in state:
                raise MaskMismatch(
                    "the model holds no such weights", where=name, todo=nearest(name, tuple(state))
                )
            entries[name] = state[name].detach() != 0
        return cls(entries)

    # --- a mapping --------------------------------------------------------

    def __getitem__(self, name: str) -> torch.Tensor:
        """A copy of one tensor: it may be changed freely without changing the mask."""
        return self._entries[name].clone()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __repr__(self) -> str:
        share = f"{self.kept:,} of {self.size:,} kept"
        return f"WeightMask({len(self)} tensors, {share}, sparsity {self.sparsity:.4f})"

    def __deepcopy__(self, memo: dict[int, object]) -> WeightMask:
        """Immutable: a copy would be the same mask."""
        return self

    # --- counts -----------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(self._entries)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self._entries.items()}

    @property
    def size(self) -> int:
        """N, the number of entries."""
        return sum(tensor.numel() for tensor in self._entries.values())

    @property
    def kept(self) -> int:
        return sum(self._counts.values())

    @property
    def zeros(self) -> int:
        return self.size - self.kept

    @property
    def sparsity(self) -> float:
        """zeros / N over all tensors of the mask."""
        return self.zeros / self.size

    def sparsity_of(self, name: str) -> float:
        """zeros / N of one tensor."""
        return 1.0 - self._density_of(name)

    def density_per_tensor(self) -> dict[str, float]:
        """The kept share of every tensor."""
        return {name: self._density_of(name) for name in self._entries}

    @property
    def emptied(self) -> tuple[str, ...]:
        """The tensors that keep less than one weight in a hundred: little passes through them but a bias."""
        return tuple(name for name in self._entries if self._density_of(name) < EMPTIED_BELOW)

    def _density_of(self, name: str) -> float:
        if name not in self._entries:
            raise MaskMismatch("the mask has no such tensor", where=name, todo=nearest(name, self.names))
        return self._counts[name] / self._entries[name].numel()

    # --- algebra ----------------------------------------------------------

    def __and__(self, other: WeightMask) -> WeightMask:
        return self._combine(other, torch.logical_and)

    def __or__(self, other: WeightMask) -> WeightMask:
        return self._combine(other, torch.logical_or)

    def __invert__(self) -> WeightMask:
        return WeightMask({name: ~tensor for name, tensor in self._entries.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeightMask):
            return NotImplemented
        return self.shapes == other.shapes and all(
            torch.equal(tensor, other._entries[name]) for name, tensor in self._entries.items()
        )

    def __hash__(self) -> int:
        return hash(self.digest())

    def digest(self) -> str:
        """SHA-256 (hex) of names, shapes and bits."""
        if self._digest is None:
            hasher = hashlib.sha256(b"tombola weight mask 1\n")
            for name, tensor in self._entries.items():
                hasher.update(f"{name} {','.join(map(str, tensor.shape))}\n".encode())
                hasher.update(np.packbits(tensor.numpy().reshape(-1)).tobytes())
            self._digest = hasher.hexdigest()
        return self._digest

    def is_subset_of(self, other: WeightMask) -> bool:
        """Whether everything kept here is kept there too: masks of one iterative run are nested."""
        self._require_same_names(other)
        return not any(bool((tensor & ~other._entries[name]).any()) for name, tensor in self._entries.items())

    def shared_names(self, other: WeightMask) -> tuple[str, ...]:
        """The tensors that both masks have: a model without a pooler has fewer of them (SPEC 5, trap 13)."""
        return tuple(name for name in self._entries if name in other._entries)

    def restrict(self, names: Iterable[str]) -> WeightMask:
        """The same mask on some of its tensors."""
        chosen: dict[str, torch.Tensor] = {}
        for name in names:
            if name not in self._entries:
                raise MaskMismatch("the mask has no such tensor", where=name, todo=nearest(name, self.names))
            chosen[name] = self._entries[name]
        return WeightMask(chosen)

    def overlap(self, other: WeightMask, of: str = "kept") -> float:
        """|mᵢ ∩ mⱼ| / |mᵢ ∪ mⱼ| of the kept or of the pruned sets, over the shared names (Figure 10).

        Two empty sets are the same set: 1.
        """
        if of not in ("kept", "pruned"):
            raise UsageError(f"overlap of '{of}' has no meaning", where="of", todo="give 'kept' or 'pruned'")
        shared = self.shared_names(other)
        if not shared:
            raise MaskMismatch("the two masks have no tensor in common", where=f"{self.names[0]} …")
        both = either = 0
        for name in shared:
            mine, theirs = self._entries[name], other._entries[name]
            if mine.shape != theirs.shape:
                raise MaskMismatch(_shapes_differ(mine.shape, theirs.shape), where=name)
            if of == "pruned":
                mine, theirs = ~mine, ~theirs
            both += int(torch.count_nonzero(mine & theirs))
            either += int(torch.count_nonzero(mine | theirs))
        return both / either if either else 1.0

    def random_like(self, generator: torch.Generator, scope: str = "global") -> WeightMask:
        """A random mask with exactly as many zeros, drawn uniformly *without* replacement (SPEC 2.3).

        ``global`` draws over all entries at once, ``layer`` draws each tensor's own number inside it.
        """
        if generator.device.type != "cpu":
            raise UsageError(
                "masks are drawn on the CPU", where="generator", todo="pass a CPU torch.Generator"
            )
        if scope == "layer":
            return WeightMask(
                {
                    name: _random_flat(tensor.numel(), self._counts[name], generator).reshape(tensor.shape)
                    for name, tensor in self._entries.items()
                }
            )
        if scope != "global":
            raise UsageError(f"'{scope}' is no scope", where="scope", todo="give 'global' or 'layer'")
        flat = _random_flat(self.size, self.kept, generator)
        parts = flat.split([tensor.numel() for tensor in self._entries.values()])
        return WeightMask(
            {
                name: part.reshape(tensor.shape)
                for (name, tensor), part in zip(self._entries.items(), parts, strict=True)
            }
        )

    # --- against a model --------------------------------------------------

    def check_against(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Refuse a mask that names a tensor the model lacks, or gives it another shape.

        The model may have more (a pooler, say): what a mask does not name, it keeps.
        """
        for name, tensor in self._entries.items():
            if name not in shapes:
                raise MaskMismatch(
                    "the mask is about a tensor that this model does not have (or does not prune)",
                    where=name,
                    todo=nearest(name, tuple(shapes)),
                )
            if tuple(tensor.shape) != tuple(shapes[name]):
                raise MaskMismatch(_shapes_differ(tensor.shape, shapes[name]), where=name)

    def _combine(
        self, other: WeightMask, operation: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    ) -> WeightMask:
        if not isinstance(other, WeightMask):
            return NotImplemented
        self._require_same_names(other)
        return WeightMask(
            {name: operation(tensor, other._entries[name]) for name, tensor in self._entries.items()}
        )

    def _require_same_names(self, other: WeightMask) -> None:
        different = sorted(self._entries.keys() ^ other._entries.keys())
        if different:
            raise MaskMismatch(
                "one mask has a tensor that the other lacks",
                where=different[0],
                todo="restrict both to shared_names() first, and say that you did",
            )
        for name, tensor in self._entries.items():
            if tensor.shape != other._entries[name].shape:
                raise MaskMismatch(_shapes_differ(tensor.shape, other._entries[name].shape), where=name)


def check_name(name: object) -> None:
    """Refuse a name that is not a plain dotted parameter name."""
    if not (isinstance(name, str) and len(name) <= LONGEST_NAME and SAFE_NAME.fullmatch(name)):
        raise MaskMismatch(
            "this is no parameter name",
            where=repr(name)[:80],
            todo="names are dotted identifiers, such as 'encoder.layer.0.output.dense.weight'",
        )


def _check_entry(name: object, tensor: object) -> None:
    check_name(name)
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.bool:
        kind = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise MaskMismatch(
            f"a mask holds boolean tensors, not {kind}", where=str(name), todo="True keeps a weight"
        )
    if tensor.dim() == 0 or tensor.numel() == 0:
        raise MaskMismatch(
            f"a mask of shape {tuple(tensor.shape)} has nothing to keep or drop", where=str(name)
        )


def _random_flat(size: int, kept: int, generator: torch.Generator) -> torch.Tensor:
    """``size`` booleans of which ``kept`` are True, every choice equally likely."""
    flat = torch.ones(size, dtype=torch.bool)
    flat[torch.randperm(size, generator=generator)[: size - kept]] = False
    return flat


def _shapes_differ(mine: Iterable[int], other: Iterable[int]) -> str:
    return f"shape {tuple(mine)} does not fit shape {tuple(other)}"
