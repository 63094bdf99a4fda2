"""A problem: one model and one task, fingerprinted, with the recipe and the numerics that every training shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tombola.masks.structure_sizes import StructureSizes
from tombola.training.recipe import Numerics, Recipe


@dataclass(frozen=True)
class ModelFacts:
    """The pre-trained model θ0 as identities need it; ``source`` says where to find it and is never hashed."""

    name: str
    revision: str | None
    fingerprint: str
    config: str
    family: str
    prefix: str
    tokenizer: str
    shapes: Mapping[str, tuple[int, ...]]
    optional: tuple[str, ...] = ()
    kind: str = "embedded"
    #: how many tokens it has positions for; None: any number
    longest_input: int | None = None
    #: its heads and FFNs
    sizes: StructureSizes | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identified(self) -> dict[str, str]:
        """The model as steps say it: what decides results, never where it lies."""
        return {"fingerprint": self.fingerprint, "config": self.config, "tokenizer": self.tokenizer}

    @cached_property
    def prunable(self) -> int:
        """N: how many weights a mask covers."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def listed_shapes(self) -> dict[str, list[int]]:
        """The shapes as steps say them; made once, for a hundred thousand steps may."""
        return {name: list(shape) for name, shape in sorted(self.shapes.items())}


@dataclass(frozen=True)
class TaskFacts:
    """The task and its records as identities need them; ``source`` says where to find the records."""

    name: str
    fingerprint: str
    kind: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    train_examples: int
    dev_examples: int
    majority: float
    source: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identified(self) -> dict[str, Any]:
        """The task as steps say it."""
        return {
            "fingerprint": self.fingerprint,
            "kind": self.kind,
            "outputs": self.outputs,
            "metrics": list(self.metrics),
        }

    @property
    def outputs(self) -> int:
        """Width of the task head."""
        return len(self.labels) if self.kind == "classification" else 1


@dataclass(frozen=True)
class Problem:
    """f(x; θ0, γ) and the data it is trained on."""

    model: ModelFacts
    task: TaskFacts
    recipe: Recipe
    numerics: Numerics

    @property
    def total_steps(self) -> int:
        """t: the optimizer steps of one full training."""
        return self.recipe.total_steps(self.task.train_examples)
