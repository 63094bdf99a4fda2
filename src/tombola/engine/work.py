"""Work: one step as an engine hands it to a process, in plain JSON; nothing is pickled, no state travels along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tombola.canonical import digest
from tombola.errors import StoreError
from tombola.plan.step import Step

#: (identity of a run, name of its output)
OutputOf = tuple[str, str]


@dataclass(frozen=True)
class Work:
    """A step without the steps before it: its inputs are outputs of runs in the store.

    ``wanted`` are the transient outputs somebody waits for. ``substitutes`` is the identity that this one stands in
    for, after an error of memory.
    """

    identity: str
    kind: str
    version: int
    parameters: Mapping[str, Any]
    inputs: Mapping[str, OutputOf]
    sources: Mapping[str, Any]
    label: str
    cost: int
    wanted: frozenset[str]
    substitutes: str | None = None

    @classmethod
    def of(cls, step: Step, wanted: Iterable[str], substitutes: str | None = None) -> Work:
        inputs = {port: (ref.step.identity, ref.output) for port, ref in step.inputs.items()}
        return cls(
            step.identity,
            step.kind,
            step.version,
            step.parameters,
            inputs,
            step.sources,
            step.label,
            step.cost,
            frozenset(wanted),
            substitutes,
        )

    @property
    def specification(self) -> dict[str, Any]:
        """The same as the step's: what ``spec.json`` holds and the identity is the hash of."""
        return {
            "step": self.kind,
            "version": self.version,
            "parameters": dict(self.parameters),
            "inputs": {
                port: {"run": run, "output": output} for port, (run, output) in sorted(self.inputs.items())
            },
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "specification": self.specification,
            "sources": dict(self.sources),
            "label": self.label,
            "cost": self.cost,
            "wanted": sorted(self.wanted),
            "substitutes": self.substitutes,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Work:
        """What another process sent; a specification that did not survive the way is refused by its hash later."""
        given = value["specification"]
        return cls(
            digest(given),
            given["step"],
            given["version"],
            given["parameters"],
            {port: (entry["run"], entry["output"]) for port, entry in given["inputs"].items()},
            value["sources"],
            value["label"],
            value["cost"],
            frozenset(value["wanted"]),
            value["substitutes"],
        )


def name_of(work: Work | Step) -> str:
    """How people are told which step is meant."""
    return f"{work.label or work.kind} ({work.identity[:12]})"


def refuse_other_version(work: Work, known: int) -> None:
    """A step planned by another version of tombola must not be computed as if it were this one's."""
    if known != work.version:
        raise StoreError(
            f"step '{work.kind}' is planned in version {work.version}, this tombola computes version {known}",
            todo="plan it again with this version",
        )
