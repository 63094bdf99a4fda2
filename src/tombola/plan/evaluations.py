"""The steps that look at finished trainings, as values: bias and variance over seeds, answers to a test set."""

from __future__ import annotations

from collections.abc import Mapping

from tombola.plan.problem import Problem
from tombola.plan.step import Ref, Step


def decomposition(problem: Problem, trainings: Mapping[int, Step], *, label: str) -> Step:
    """Bias and variance over the seeds of one row of trainings, on the development set."""
    return Step(
        kind="decompose",
        version=1,
        parameters={"task": {"fingerprint": problem.task.fingerprint, "kind": problem.task.kind}},
        inputs={str(seed): step.out("predictions.safetensors") for seed, step in trainings.items()},
        sources={
            "model": dict(problem.model.source),
            "task": dict(problem.task.source),
            "max_length": problem.recipe.max_length,
        },
        label=f"{problem.task.name}: {label}",
    )


def prediction(
    problem: Problem, training: Step, splits: Mapping[str, str], *, structure: Ref | None, label: str
) -> Step:
    """What a trained model answers to splits that have no labels; ``splits``: their names and fingerprints."""
    inputs = {"weights": training.out("weights.safetensors")}
    if structure is not None:
        inputs["structure"] = structure
    return Step(
        kind="predict",
        version=1,
        parameters={
            "model": problem.model.identified,
            "task": problem.task.identified,
            "splits": dict(splits),
            "max_length": problem.recipe.max_length,
            "numerics": problem.numerics.to_json(),
        },
        inputs=inputs,
        sources={"model": dict(problem.model.source), "task": dict(problem.task.source)},
        label=f"{problem.task.name}: {label}",
    )
