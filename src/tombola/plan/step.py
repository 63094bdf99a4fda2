"""A step: one named computation, its parameters, and the outputs of other steps that it reads.

A step is a value. Its identity is the hash of what it computes (name, version, parameters, inputs), never of where,
when, or by whom: two plans that ask for the same training share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tombola.canonical import block, canonical_json, digest_of_text


@dataclass(frozen=True, slots=True)
class Ref:
    """One output file of a step, as the input of another."""

    step: Step
    output: str


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One computation. ``kind`` and ``version`` name its function in the registry of ``plan/steps.py``.

    ``sources`` says where this process found the model and the data (names, folders); ``label`` and ``cost`` are for
    people and progress bars. None of the three is part of the identity: fingerprints in ``parameters`` are. What
    steps say alike (a recipe, the shapes of a model) they share: none of it may be changed.
    """

    kind: str
    version: int
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Ref] = field(default_factory=dict)
    sources: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    cost: int = 0
    #: SHA-256 of the specification
    identity: str = field(init=False)

    def __post_init__(self) -> None:
        parameters = block(dict(self.parameters))
        # The canonical JSON of the specification, put together from texts that most steps have in common.
        rest = canonical_json({"step": self.kind, "version": self.version})[1:]
        text = f'{{"inputs":{canonical_json(self._inputs())},"parameters":{parameters.text},{rest}'
        object.__setattr__(self, "identity", digest_of_text(text))
        object.__setattr__(self, "parameters", parameters.value)
        object.__setattr__(self, "sources", block(dict(self.sources)).value)

    @property
    def specification(self) -> dict[str, Any]:
        """What ``spec.json`` of the run holds: everything that decides the result."""
        return {
            "step": self.kind,
            "version": self.version,
            "parameters": dict(self.parameters),
            "inputs": self._inputs(),
        }

    def _inputs(self) -> dict[str, Any]:
        return {
            port: {"run": ref.step.identity, "output": ref.output}
            for port, ref in sorted(self.inputs.items())
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Step) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def out(self, output: str) -> Ref:
        """A reference to one of this step's output files."""
        return Ref(self, output)
