"""The one registry of steps: name and version -> the function that computes it.

A function takes the step's parameters, the paths of its inputs, hints where model and data are, and a workplace to
write into. It is a pure function of the first two: same parameters and inputs, same bytes. Change what a function
computes, and its version must change too; ``tests/plan/test_golden_steps.py`` fails otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tombola.plan.workplace import Workplace

StepFunction = Callable[[Mapping[str, Any], Mapping[str, Path], Mapping[str, Any], Workplace], None]


@dataclass(frozen=True)
class StepKind:
    version: int
    function: StepFunction


def _of(module: str, name: str) -> StepFunction:
    """Loaded when it is called: whoever only plans, or looks what is done, needs no torch."""

    def function(
        parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
    ) -> None:
        getattr(import_module(module), name)(parameters, inputs, sources, work)

    return function


STEPS: dict[str, StepKind] = {
    "train": StepKind(3, _of("tombola.plan.train_step", "train")),
    "prune": StepKind(1, _of("tombola.plan.mask_steps", "prune")),
    "random_mask": StepKind(1, _of("tombola.plan.mask_steps", "random_mask")),
    "import_ticket": StepKind(1, _of("tombola.plan.mask_steps", "import_ticket")),
    "importance": StepKind(1, _of("tombola.plan.structure_steps", "importance")),
    "structure": StepKind(1, _of("tombola.plan.structure_steps", "structure")),
    "random_structure": StepKind(1, _of("tombola.plan.structure_steps", "random_structure")),
    "choose_level": StepKind(1, _of("tombola.plan.structure_steps", "choose_level")),
    "decompose": StepKind(1, _of("tombola.plan.decomposition_step", "decompose")),
    "predict": StepKind(1, _of("tombola.plan.predict_step", "predict")),
}
