"""Steps that cost nothing, counted, for tests of stores and engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tombola import files
from tombola.plan.step import Step
from tombola.plan.steps import StepKind

RUNS: list[str] = []


def number(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """A number, and a big transient tensor when somebody wants it."""
    RUNS.append(f"number {parameters['value']}")
    work.write_json("value.json", {"value": parameters["value"]})
    if "weights.safetensors" in work.wanted:
        work.write_tensors(
            "weights.safetensors", {"w": torch.full((4,), float(parameters["value"]))}, transient=True
        )


def total(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """The sum of its inputs' tensors."""
    RUNS.append("total")
    work.write_json(
        "value.json", {"value": sum(float(files.read_tensors(p)["w"][0]) for p in inputs.values())}
    )


def fickle(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Gives something else every time it runs: what a wrong step would do."""
    RUNS.append("fickle")
    work.write_json("value.json", {"value": len(RUNS)})
    if "weights.safetensors" in work.wanted:
        work.write_tensors("weights.safetensors", {"w": torch.ones(1)}, transient=True)


TOYS = {"number": StepKind(1, number), "total": StepKind(1, total), "fickle": StepKind(1, fickle)}


def number_step(value: int) -> Step:
    return Step("number", 1, {"value": value}, label=f"number {value}")


def total_step(*steps: Step) -> Step:
    return Step(
        "total",
        1,
        {},
        {f"in{i}": step.out("weights.safetensors") for i, step in enumerate(steps)},
        label="total",
    )
