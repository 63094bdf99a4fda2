"""A made-up problem for plans that nobody runs."""

from __future__ import annotations

from tombola.plan.problem import ModelFacts, Problem, TaskFacts
from tombola.training.recipe import Numerics, Recipe


def made_up_problem(**recipe: object) -> Problem:
    """100 prunable weights in two matrices; 64 examples, batch 32, 3 epochs: 6 steps."""
    model = ModelFacts(
        name="made-up",
        revision="1",
        fingerprint="f" * 64,
        config="c" * 64,
        family="bert",
        prefix="bert",
        tokenizer="t" * 64,
        shapes={"encoder.a.weight": (6, 10), "encoder.b.weight": (4, 10)},
        source={"name": "made-up", "revision": "1"},
    )
    task = TaskFacts(
        name="toy",
        fingerprint="d" * 64,
        kind="classification",
        labels=("no", "yes"),
        metrics=("accuracy", "f1"),
        train_examples=64,
        dev_examples=10,
        majority=50.0,
        source={"name": "toy"},
    )
    return Problem(model, task, Recipe(**recipe), Numerics())  # type: ignore[arg-type]
