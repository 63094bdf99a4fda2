"""Studies over made-up problems, and a store that knows whatever a test says; nothing is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.problems import made_up_problem

from tombola.finding.methods import get_method
from tombola.finding.search import Search, plan_search
from tombola.masks.structure_sizes import StructureSizes
from tombola.plan.problem import Problem
from tombola.plan.step import Ref, Step
from tombola.studies.existence import Existence, ExistenceRecipe
from tombola.studies.phases import Phases, PhasesRecipe
from tombola.studies.recipe import validated
from tombola.studies.super_grid import grid_search
from tombola.studies.super_tables import SuperTables, SuperTablesRecipe
from tombola.studies.transfer import Transfer, TransferRecipe

METRICS = {
    **{"one": ("accuracy",), "two": ("accuracy", "f1"), "three": ("matthews",)},
    "number": ("pearson", "spearman"),
}
#: Six layers of twelve heads in a model of 100,000 parameters: a head has 400 of them, an FFN 4,000.
SIZES = StructureSizes(
    hidden=10, head_size=10, inner=200, heads=(12,) * 6, parameters=100_000, encoder=60_000
)


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


def phases(**settings: Any) -> Phases:
    recipe = validated(PhasesRecipe, super_settings("phases", settings), "a test")
    searches = {
        (task, share): grid_search(recipe, smaller_problem(task, share), recipe.kinds)
        for task, share in recipe.places
    }
    return Phases(recipe, searches)


def super_tables(**settings: Any) -> SuperTables:
    recipe = validated(SuperTablesRecipe, super_settings("super_tables", settings), "a test")
    searches = {task: grid_search(recipe, smaller_problem(task)) for task in recipe.tasks}
    return SuperTables(recipe, searches, {task: {} for task in recipe.tasks})


def smaller_problem(task: str, share: float = 1.0) -> Problem:
    """A task with a model that has heads and FFNs, and a share of its 64 examples."""
    plain = problem_of(task)
    facts = replace(plain.task, fingerprint=task if share == 1 else f"{task} {share:g}")
    if task == "number":
        facts = replace(facts, kind="regression", labels=())
    facts = replace(facts, train_examples=int(64 * share))
    return replace(plain, model=replace(plain.model, sizes=SIZES), task=facts)


def super_settings(study: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{"study": study, "model": "m", "seeds": 3, "levels": [0.2, 0.5, 0.8]},
        **settings,
        "tasks": _own_files(settings),
    }


def _own_files(settings: Mapping[str, Any]) -> dict[str, Any]:
    # The tasks are made up, so their own recipes do not exist: they count as somebody's own files.
    return {name: {"data": f"{name}.csv"} for name in settings.get("tasks", ["one", "two"])}


def _settings(study: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"study": study, "model": "m", "seeds": 3, "sparsities": [0.3, 0.5, 0.7], "step": 0.3}
    return {**plain, **settings, "tasks": _own_files(settings)}


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

    def json(self, output: Ref) -> Any | None:
        raise AssertionError(f"these studies read only metrics, not {output.output}")

    def run(self, step: Step) -> str:
        return step.identity


class SuperMade(Made):
    """The same for studies of super tickets: ``row`` is ``full``, ``winning``, ``random`` or ``losing``.

    ``share``: the scores on the share that levels are chosen on, ``score`` itself where it is None. The rest of the
    development set is one point below the whole. Tasks with two metrics score two points more by the second.
    """

    def __init__(
        self,
        score: Callable[[str, str, float, int], float | None],
        share: Callable[[str, float, int], float] | None = None,
    ) -> None:
        super().__init__(score)
        self.share = share

    def metrics(self, step: Step) -> Mapping[str, Any] | None:
        found = self._found(step)
        return None if found is None else {"dev": found, "dev_share": found}

    def json(self, output: Ref) -> Any | None:
        if output.output == "answers.json":
            return {"test": [0, 1, 1]}
        rows = {level: ref.step for level, ref in output.step.inputs.items()}
        scores = {name: self._found(step) for name, step in rows.items()}
        if any(found is None for found in scores.values()):
            return None
        if output.output == "decomposition.json":
            _, _, level, _ = told_super(next(iter(rows.values())))
            return {"error": 0.5 + level, "bias_squared": 0.4 + level, "variance": 0.1}
        levels = {}
        for name, found in scores.items():
            task, _, level, seed = told_super(rows[name])
            chosen_by = found if self.share is None else dict.fromkeys(found, self.share(task, level, seed))
            rest = {metric: value - 1 for metric, value in found.items()}
            levels[name] = {"dev": found, "share": chosen_by, "rest": rest}
        able = [name for name in levels if name != "0"]
        best = max(able, key=lambda name: sum(levels[name]["share"].values()))
        return {"levels": levels, "chosen": float(best)}

    def _found(self, step: Step) -> dict[str, float] | None:
        task, row, level, seed = told_super(step)
        score = self.score(task, row, level, seed)
        if score is None:
            return None
        return {
            metric: score + 2 * place
            for place, metric in enumerate(METRICS.get(task.split()[0], ("accuracy",)))
        }


def told_super(step: Step) -> tuple[str, str, float, int]:
    """What a training's label says of it."""
    task, seed = step.parameters["task"]["fingerprint"], step.parameters["seed"]
    words = step.label.partition(": ")[2].removesuffix(f", seed {seed}")
    if words == "full model":
        return task, "full", 0.0, seed
    name, _, level = words.rpartition(" ticket at ")
    return task, {"super": "winning"}.get(name, name), float(level.removesuffix("%")) / 100, seed


def told(step: Step) -> tuple[str, str, float, int]:
    """What a training's label says of it."""
    task, seed = step.parameters["task"]["fingerprint"], step.parameters["seed"]
    words = step.label.removeprefix(f"{task}: ").removesuffix(f", seed {seed}")
    if words == "full model":
        return task, "full", 0.0, seed
    name, _, share = words.rpartition(" at ")
    row = name.removeprefix("ticket of ").removesuffix(" ticket")
    return task, row, float(share.removesuffix("%")) / 100, seed
