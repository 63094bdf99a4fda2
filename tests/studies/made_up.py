"""Studies over made-up problems, and a store that knows whatever a test says; nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.problems import made_up_problem

from tombola.finding.methods import get_method
from tombola.finding.search import Search, plan_search
from tombola.plan.problem import Problem
from tombola.plan.step import Step
from tombola.studies.existence import Existence, ExistenceRecipe
from tombola.studies.recipe import validated
from tombola.studies.transfer import Transfer, TransferRecipe

METRICS = {"one": ("accuracy",), "two": ("accuracy", "f1"), "three": ("matthews",)}


def problem_of(task: str, majority: float = 50.0) -> Problem:
    """A task of that name; its fingerprint is its name, so that a test can tell whose training a step is."""
    plain = made_up_problem()
    metrics = METRICS.get(task, ("accuracy",))
    facts = replace(plain.task, name=task, fingerprint=task, metrics=metrics, majority=majority)
    return replace(plain, task=facts)


def search_of(task: str, recipe: ExistenceRecipe | TransferRecipe, more: tuple[float, ...] = ()) -> Search:
    settings = recipe.settings
    grid = tuple(sorted({*settings.sparsities, *more}))
    return plan_search(problem_of(task), replace(settings, sparsities=grid), get_method(recipe.method))


def existence(**settings: Any) -> Existence:
    recipe = validated(ExistenceRecipe, _settings("existence", settings), "a test")
    return Existence(recipe, {task: search_of(task, recipe) for task in recipe.tasks})


def transfer(**settings: Any) -> Transfer:
    recipe = validated(TransferRecipe, _settings("transfer", settings), "a test")
    return Transfer(recipe, {task: search_of(task, recipe, recipe.fixed) for task in recipe.tasks})


def _settings(study: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"study": study, "model": "m", "seeds": 3, "sparsities": [0.3, 0.5, 0.7], "step": 0.3}
    tasks = settings.get("tasks", ["one", "two"])
    # The tasks are made up, so their own recipes do not exist: they count as somebody's own files.
    named = {name: {"data": f"{name}.csv"} for name in tasks}
    return {**plain, **settings, "tasks": named}


class Made:
    """Knows the score of every training by a function of (task, row, sparsity, seed); None: not done yet.

    ``row`` is ``full``, ``imp``, a control's name, or the source task of a transferred ticket.
    """

    def __init__(self, score: Callable[[str, str, float, int], float | None]) -> None:
        self.score = score

    def metrics(self, step: Step) -> Mapping[str, Any] | None:
        task, row, sparsity, seed = told(step)
        found = self.score(task, row, sparsity, seed)
        return None if found is None else {"dev": dict.fromkeys(METRICS.get(task, ("accuracy",)), found)}

    def run(self, step: Step) -> str:
        return step.identity


def told(step: Step) -> tuple[str, str, float, int]:
    """What a training's label says of it."""
    task, seed = step.parameters["task"]["fingerprint"], step.parameters["seed"]
    words = step.label.removeprefix(f"{task}: ").removesuffix(f", seed {seed}")
    if words == "full model":
        return task, "full", 0.0, seed
    name, _, share = words.rpartition(" at ")
    row = name.removeprefix("ticket of ").removesuffix(" ticket")
    return task, row, float(share.removesuffix("%")) / 100, seed
