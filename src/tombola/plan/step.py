"""A step: one named computation, its parameters, and the outputs of other steps that it reads.

A step is a value. Its identity is the hash of what it computes (name, version, parameters, inputs), never of where,
when, or by whom: two plans that ask for the same training share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tombola.canonical import digest


@dataclass(frozen=True)
class Ref:
    """One output file of a step, as the input of another."""

    step: Step
    output: str


@dataclass(frozen=True, eq=False)
class Step:
    """One computation. ``kind`` and ``version`` name its function in the registry of ``plan/steps.py``.

    ``sources`` says where this process found the model and the data (names, folders); ``label`` and ``cost`` are for
    people and progress bars. None of the three is part of the identity: fingerprints in ``parameters`` are.
    """

    kind: str
    version: int
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Ref] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    cost: int = 0

    def __post_init__(self) -> None:
        # Computed now, inputs first: a chain of a thousand rounds must not recurse a thousand deep later.
        _ = self.identity

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the specification."""
        return digest(self.specification)

    @property
    def specification(self) -> dict[str, Any]:
        """What ``spec.json`` of the run holds: everything that decides the result."""
        return {
            "step": self.kind,
            "version": self.version,
            "parameters": dict(self.parameters),
            "inputs": {
                port: {"run": ref.step.identity, "output": ref.output}
                for port, ref in sorted(self.inputs.items())
            },
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def out(self, output: str) -> Ref:
        """A reference to one of this step's output files."""
        return Ref(self, output)
