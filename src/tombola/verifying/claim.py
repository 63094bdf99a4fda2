"""A claim: how small a ticket says it is, how the metrics of a training tell, and what a control of that size is.

Masks of single weights claim a sparsity, structured tickets a remaining weight. Everything else about verifying is
the same for both, and asks the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from tombola.errors import UsageError
from tombola.masks.structure_mask import StructureMask
from tombola.masks.structure_sizes import StructureSizes
from tombola.plan.problem import Problem
from tombola.plan.step import Ref
from tombola.plan.structures import STRUCTURE, random_structure
from tombola.plan.trainings import pruning, random_mask

Metrics = Mapping[str, Any]
#: A kept weight may happen to be exactly 0 after training; more of them than this share are no accident.
ACCIDENTAL_ZEROS = 1e-4


class Claim(Protocol):
    """What is claimed (a share, named ``measure``), how to count it, and the masks of controls of the same size."""

    measure: ClassVar[str]
    #: what a step that makes or imports such a mask calls it
    output: ClassVar[str]
    #: the verdict where the trained weights are not what is claimed
    broken: ClassVar[str]
    #: what a reader must know to compare the claimed with the counted share
    note: ClassVar[str]
    #: controls that have no meaning for such tickets, and why
    refuses: ClassVar[Mapping[str, str]]

    @property
    def claimed(self) -> float: ...
    def measured(self, metrics: Metrics) -> float: ...
    def holds(self, metrics: Metrics) -> bool: ...
    def random(self, problem: Problem, seed: int) -> Ref: ...
    def random_per_layer(self, problem: Problem, like: Ref, seed: int) -> Ref: ...
    def magnitude(self, problem: Problem) -> Ref: ...


@dataclass(frozen=True)
class WeightClaim:
    """``zeros`` of ``prunable`` weights are zero."""

    zeros: int
    prunable: int

    measure: ClassVar[str] = "sparsity"
    output: ClassVar[str] = "mask.safetensors"
    broken: ClassVar[str] = "the weights are not as sparse as the ticket claims"
    note: ClassVar[str] = ""
    refuses: ClassVar[Mapping[str, str]] = {}

    @property
    def claimed(self) -> float:
        return self.zeros / self.prunable

    def measured(self, metrics: Metrics) -> float:
        return metrics["sparsity"]["zeros"] / self.prunable

    def holds(self, metrics: Metrics) -> bool:
        most = self.zeros + ACCIDENTAL_ZEROS * self.prunable
        return self.zeros <= int(metrics["sparsity"]["zeros"]) <= most

    def random(self, problem: Problem, seed: int) -> Ref:
        return random_mask(problem, zeros=self.zeros, seed=seed).out(self.output)

    def random_per_layer(self, problem: Problem, like: Ref, seed: int) -> Ref:
        return random_mask(problem, zeros=self.zeros, seed=seed, scope="layer", like=like).out(self.output)

    def magnitude(self, problem: Problem) -> Ref:
        label = "one-shot magnitude of θ0"
        return pruning(problem, weights=None, within=None, zeros=self.zeros, label=label).out(self.output)


@dataclass(frozen=True)
class StructureClaim:
    """``heads`` heads and ``ffns`` FFNs of a model of these sizes are gone."""

    heads: int
    ffns: int
    sizes: StructureSizes

    measure: ClassVar[str] = "remaining weight"
    output: ClassVar[str] = STRUCTURE
    broken: ClassVar[str] = "the trained models are not as small as the ticket claims"
    note: ClassVar[str] = "the claim counts matrices, and the removed parts' biases are gone too"
    refuses: ClassVar[Mapping[str, str]] = {
        "random-per-layer": "a layer has one FFN: drawn layer by layer, the FFNs would be the ticket's own",
        "magnitude": "it ranks single weights, and a structured ticket removes whole heads and FFNs",
    }

    @classmethod
    def of(cls, mask: StructureMask, sizes: StructureSizes) -> StructureClaim:
        return cls(mask.heads_removed, mask.ffns_removed, sizes)

    @property
    def claimed(self) -> float:
        return self._weights_left / self.sizes.parameters

    def measured(self, metrics: Metrics) -> float:
        """By the parameters counted in the trained model; those of the full model say nothing of a structure."""
        counted = metrics.get("structure")
        return 1.0 if counted is None else counted["parameters"] / self.sizes.parameters

    def holds(self, metrics: Metrics) -> bool:
        """Exactly these numbers of parts are left, and no more weights than the claim leaves (biases go too)."""
        counted = metrics.get("structure")
        if counted is None:
            return self.heads == self.ffns == 0
        left = (sum(self.sizes.heads) - self.heads, len(self.sizes.heads) - self.ffns)
        return (sum(counted["heads"]), sum(counted["ffns"])) == left and (
            counted["parameters"] <= self._weights_left
        )

    def random(self, problem: Problem, seed: int) -> Ref:
        removable = sum(self.sizes.heads) - len(self.sizes.heads)
        if self.heads > removable:
            raise UsageError(
                f"no random ticket is as small: the ticket removes {self.heads} heads, and random ones keep one head "
                f"in every layer, so that {removable} can go",
                where="--against random",
                todo="leave it out: --against full,reinit",
            )
        return random_structure(problem, heads=self.heads, ffns=self.ffns, seed=seed).out(self.output)

    def random_per_layer(self, problem: Problem, like: Ref, seed: int) -> Ref:
        raise UsageError(self.refuses["random-per-layer"], where="random-per-layer")

    def magnitude(self, problem: Problem) -> Ref:
        raise UsageError(self.refuses["magnitude"], where="magnitude")

    @property
    def _weights_left(self) -> int:
        sizes = self.sizes
        return sizes.parameters - sizes.head_weights * self.heads - sizes.ffn_weights * self.ffns
