"""The searches of a study: for every task its problem, and with every seed its dense training, masks and tickets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tombola.finding.methods import get_method
from tombola.finding.search import Search, plan_search
from tombola.plan.graph import Graph, unique
from tombola.plan.step import Step
from tombola.studies.evidence import BySeed
from tombola.studies.recipe import StudyRecipe


@dataclass(frozen=True)
class Planned:
    """One row of a study: the trainings of its seeds, and the weights among their outputs that are to stay."""

    rows: tuple[BySeed, ...]
    keep: tuple[str, ...]

    @property
    def graph(self) -> Graph:
        steps = unique(step for row in self.rows for step in row.values())
        outputs = tuple(step.out("weights.safetensors") for step in steps) if "weights" in self.keep else ()
        return Graph(steps, outputs)


def searches(
    recipe: StudyRecipe, tasks: Iterable[str], sparsities: Iterable[float] = ()
) -> dict[str, Search]:
    """The search on each task over the recipe's grid, and over ``sparsities`` besides."""
    settings = recipe.settings
    grid = tuple(sorted({*settings.sparsities, *sparsities}))
    settings = type(settings)(**{**vars(settings), "sparsities": grid})
    method = get_method(recipe.method)
    return {task: plan_search(recipe.problem(task), settings, method) for task in tasks}


def trainings(graph: Graph, before: Iterable[Step] = ()) -> int:
    """How many trainings a graph holds besides those of other steps."""
    known = {step.identity for step in before}
    return sum(step.kind == "train" and step.identity not in known for step in graph.steps)
