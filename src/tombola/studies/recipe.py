"""Recipes: one YAML file is one study. Here is what every study's recipe says; each study adds its own settings.

Unknown keys are refused with the nearest known one, wrong values with the place where they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tombola.errors import RecipeError, TombolaError, nearest
from tombola.finding.methods import get_method
from tombola.finding.settings import SearchSettings
from tombola.masks.share import read_share
from tombola.plan.defaults import make_numerics, make_recipe
from tombola.plan.materials import problem
from tombola.plan.problem import Problem
from tombola.tasks.task import DataOptions
from tombola.training.recipe import Numerics, Recipe
from tombola.verifying.controls import check_controls
from tombola.verifying.criteria import parse as parse_criterion

MOST_SEEDS = 1000


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("give a share such as 0.7 or 70%")
    try:
        return read_share(str(value), "")
    except TombolaError as error:
        raise ValueError(f"{error.what}: {error.todo}") from None


def _seeds(value: Any) -> Any:
    return tuple(range(value)) if isinstance(value, int) and not isinstance(value, bool) else value


#: 0.7 or "70%"
Share = Annotated[float, BeforeValidator(_share)]
#: 5 means seeds 0…4
Seeds = Annotated[tuple[int, ...], BeforeValidator(_seeds), Field(min_length=1, max_length=MOST_SEEDS)]


class Strict(BaseModel):
    """Nothing unknown, nothing changed after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class TaskChoice(Strict):
    """One task of a study: its data, and what of the training differs from the study's."""

    data_dir: Path | None = None
    data: Path | None = None
    eval_data: Path | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    kind: str | None = None
    max_train: Annotated[int, Field(ge=1)] | None = None
    max_eval: Annotated[int, Field(ge=1)] | None = None
    subset_seed: int = 0
    training: dict[str, Any] = {}


class StudyRecipe(Strict):
    """What all studies have in common: a model, tasks, searches over seeds, how models are trained."""

    study: str
    about: str = ""
    model: str
    revision: str | None = None
    keep_pooler: bool = False
    #: where the benchmarks' own files are; a task may name another folder
    data_dir: Path | None = None
    tasks: dict[str, TaskChoice | None] = Field(min_length=1)
    training: dict[str, Any] = {}
    numerics: dict[str, Any] = {}
    method: str = "imp"
    schedule: str = "linear"
    step: float = 0.1
    rewind: float | str = 0.0
    scope: str = "global"
    sparsities: tuple[Share, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    seeds: Seeds = (0, 1, 2, 3, 4)
    #: ``weights``: the trained weights of every retrained ticket and full model stay in the store
    keep: tuple[str, ...] = ()

    def check(self) -> None:
        """What only the rooms below can say: methods, settings, trainings."""
        get_method(self.method).refuse_ignored(self.settings)
        for name in self.keep:
            if name != "weights":
                raise RecipeError(
                    f"'{name}' cannot be kept", where="keep", todo="leave it out, or: keep: [weights]"
                )
        for name in self.tasks:
            self.recipe_of(name)

    @property
    def settings(self) -> SearchSettings:
        return SearchSettings(
            sparsities=tuple(sorted(set(self.sparsities))),
            seeds=self.seeds,
            schedule=self.schedule,
            step=self.step,
            rewind=self.rewind,
            scope=self.scope,
        )

    def choice(self, task: str) -> TaskChoice:
        return self.tasks[task] or TaskChoice()

    def recipe_of(self, task: str) -> Recipe:
        """The recipe of the task (SPEC 2.4, 3.4 by method), changed by the study's ``training``, then by the task's."""
        own_files = self.choice(task).data is not None
        method = get_method(self.method).name
        merged = {
            **make_recipe(None if own_files else task, method=method).to_json(),
            **self.training,
            **self.choice(task).training,
        }
        return Recipe.from_json(merged)

    def numerics_as_told(self) -> Numerics:
        """A device that is named need not be here: planning, and a cluster's own machine, can do without."""
        told = {"device": "cpu", "threads": 1, **self.numerics}
        return make_numerics(**told) if told["device"] == "auto" else Numerics.from_json(told)

    def subset_problem(self, task: str, share: float) -> Problem:
        """The same task with a seeded share of the training data that the study gives it; smaller ones lie in larger
        ones."""
        whole = self.problem(task).task.train_examples
        return self.problem(task, max_train=max(1, int(share * whole + 0.5)))

    def problem(self, task: str, *, max_train: int | None = None) -> Problem:
        """One task of the study as every training of it needs it: reads the model and the records."""
        chosen = self.choice(task)
        named = {name: getattr(chosen, name) for name in TaskChoice.model_fields if name != "training"}
        if max_train is not None:
            named["max_train"] = max_train
        own_files = chosen.data is not None
        if not own_files:
            named["data_dir"] = chosen.data_dir or self.data_dir
        return problem(
            self.model,
            self.revision,
            None if own_files else task,
            DataOptions(**named),
            self.recipe_of(task),
            self.numerics_as_told(),
            keep_pooler=self.keep_pooler,
        )


Read = TypeVar("Read", bound=StudyRecipe)


def validated(model: type[Read], settings: Mapping[str, Any], where: str) -> Read:
    """The recipe that ``settings`` stand for; the first mistake in it is told with its place."""
    try:
        recipe = model.model_validate(settings)
    except ValidationError as problem_found:
        raise _told(problem_found, model, where) from None
    try:
        recipe.check()
    except TombolaError as error:
        raise RecipeError(error.what, where=f"{where}: {error.where}", todo=error.todo) from None
    return recipe


def check_criteria(criteria: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    """Criteria that exist and that this many seeds can decide."""
    for text in criteria:
        if parse_criterion(text).std_of is not None and len(seeds) < 2:
            raise RecipeError(
                f"one seed has no standard deviation: {text} cannot be judged",
                where="criteria",
                todo="give more seeds, or judge by within_points:2",
            )


def check_rows(controls: tuple[str, ...]) -> None:
    check_controls(controls)
    if "full" in controls:
        raise RecipeError(
            "the full model is no control", where="controls", todo="leave it out: it is always there"
        )


def _told(problem_found: ValidationError, model: type[BaseModel], where: str) -> RecipeError:
    # A misspelled key is both unknown and missing: the first tells more.
    first = min(problem_found.errors(), key=lambda error: error["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in first["loc"])
    more = problem_found.error_count() - 1
    further = f" ({more} more after it)" if more else ""
    if first["type"] == "extra_forbidden":
        known = _known_at(model, first["loc"][:-1])
        return RecipeError(
            f"unknown setting '{place}'{further}", where=where, todo=nearest(str(first["loc"][-1]), known)
        )
    if first["type"] == "missing":
        return RecipeError(f"the setting '{place}' is missing{further}", where=where, todo=f"add {place}: …")
    return RecipeError(
        f"{place} is {first['input']!r}: {first['msg'][:1].lower()}{first['msg'][1:]}{further}",
        where=where,
        todo="give a value of that kind",
    )


def _known_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    return list(TaskChoice.model_fields if place[:1] == ("tasks",) else model.model_fields)
