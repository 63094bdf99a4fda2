"""Learning rate and batch size, chosen once on the full model and reused at every level (SPEC 3.4).

Every point of the grid trains the full model with the first seed. The best score on the seeded share of the development
set, by which trainings stop and levels are chosen too, decides; the search of all seeds and levels is planned then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import product

from tombola.finding.methods import get_method
from tombola.finding.search import plan_search
from tombola.finding.super_ticket import Kind
from tombola.plan.problem import Problem
from tombola.plan.step import Step
from tombola.plan.trainings import dense_training
from tombola.studies.evidence import MEAN, Measure
from tombola.studies.study import Known
from tombola.studies.super_recipe import SuperRecipe
from tombola.studies.super_searches import SuperSearch

#: Where trainings tell the score on the share that they stopped by.
SHARE = Measure(MEAN, "dev_share")


@dataclass(frozen=True)
class GridSearch:
    """A search whose recipe is one of ``problems``: which one, the full model's scores decide."""

    problems: tuple[Problem, ...]
    recipe: SuperRecipe
    kinds: tuple[Kind, ...] = ("winning",)
    _made: dict[int, SuperSearch] = field(default_factory=dict, compare=False, repr=False)

    @property
    def trials(self) -> tuple[Step, ...]:
        """The full models that decide; none where there is nothing to choose."""
        if len(self.problems) == 1:
            return ()
        return tuple(dense_training(problem, self.recipe.seeds[0]) for problem in self.problems)

    def scores(self, known: Known) -> list[float | None]:
        """Every trial's score on the share, None while it is not done."""
        found = [known.metrics(step) for step in self.trials]
        return [None if metrics is None else SHARE.read(metrics) for metrics in found]

    def chosen(self, known: Known) -> int | None:
        """The best point, the first of equal ones; None while a trial is not done."""
        if len(self.problems) == 1:
            return 0
        found = [score for score in self.scores(known) if score is not None]
        return None if len(found) < len(self.problems) else found.index(max(found))

    def found(self, known: Known) -> SuperSearch | None:
        """The search with the chosen recipe, None while it is not chosen."""
        point = self.chosen(known)
        return None if point is None else self.at(point)

    def at(self, point: int) -> SuperSearch:
        if point not in self._made:
            planned = plan_search(self.problems[point], self.recipe.settings, get_method(self.recipe.method))
            self._made[point] = SuperSearch(planned, self.kinds)
        return self._made[point]

    @property
    def most_later(self) -> int:
        """How many trainings may follow the trials: all but the full model that is one of them."""
        seeds = len(self.recipe.seeds)
        return seeds * (1 + len(self.recipe.settings.sparsities) * len(self.kinds)) - 1


def grid_search(recipe: SuperRecipe, problem: Problem, kinds: Iterable[Kind] = ("winning",)) -> GridSearch:
    """The search on one problem, with every recipe that the study's grid makes of the problem's own."""
    names = list(recipe.grid)
    points = [dict(zip(names, values, strict=True)) for values in product(*recipe.grid.values())]
    problems = tuple(replace(problem, recipe=problem.recipe.with_(**point)) for point in points)
    return GridSearch(problems, recipe, tuple(kinds))
