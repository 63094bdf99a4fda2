"""How much of a model a structure mask leaves: the remaining weight of Super tickets (SPEC 3.3)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tombola.errors import UsageError
from tombola.masks.structure_mask import StructureMask


@dataclass(frozen=True)
class StructureSizes:
    """The sizes of a full model that say what a head and an FFN weigh.

    ``parameters`` is the whole pre-trained model, embeddings included; ``encoder`` is what all its layers hold.
    """

    hidden: int
    head_size: int
    inner: int
    heads: tuple[int, ...]
    parameters: int
    encoder: int
    ffn_matrices: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", tuple(self.heads))
        for field in fields(self):
            if field.name != "heads":
                _check_size(getattr(self, field.name), field.name)
        for layer, count in enumerate(self.heads):
            _check_size(count, f"heads of layer {layer}")
        removable = self.head_weights * sum(self.heads) + self.ffn_weights * len(self.heads)
        if not (self.heads and removable <= self.encoder <= self.parameters):
            raise UsageError(
                f"{removable:,} weights in heads and FFNs do not fit into an encoder of {self.encoder:,}"
                f" in a model of {self.parameters:,}",
                where="sizes",
                todo="give the sizes of the full model",
            )

    @property
    def head_weights(self) -> int:
        """4·d·d_h: its rows of Q, K and V and its columns of O."""
        return 4 * self.hidden * self.head_size

    @property
    def ffn_weights(self) -> int:
        """2·d·d_ff; three matrices where the FFN is gated."""
        return self.ffn_matrices * self.hidden * self.inner

    def removed_weights(self, mask: StructureMask) -> int:
        """What the paper counts as removed: the matrices; biases and LayerNorms are not in it."""
        mask.check_against(self.heads)
        return self.weights_of(mask.heads_removed, mask.ffns_removed)

    def weights_of(self, heads: int, ffns: int) -> int:
        """What so many heads and FFNs weigh."""
        return self.head_weights * heads + self.ffn_weights * ffns

    def remaining_without(self, heads: int, ffns: int) -> float:
        """``remaining_weight`` of any structure without so many heads and FFNs: only their numbers count."""
        return 1.0 - self.weights_of(heads, ffns) / self.parameters

    def remaining_weight(self, mask: StructureMask) -> float:
        """The share of all parameters that remains: 1 − (4·d·d_h·heads + 2·d·d_ff·ffns) / parameters."""
        return 1.0 - self.removed_weights(mask) / self.parameters

    def remaining_of_encoder(self, mask: StructureMask) -> float:
        """The same of the encoder alone: a smaller number than the papers print."""
        return 1.0 - self.removed_weights(mask) / self.encoder


def _check_size(value: object, where: str) -> None:
    if type(value) is not int or value < 1:
        raise UsageError(f"a size of {repr(value)[:40]} cannot be", where=where, todo="give a whole number")
