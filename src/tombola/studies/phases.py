"""The phases of super tickets (Super tickets: Figures 1, 4, 5, 7; SPEC 3.3, 3.6).

For every task and seed a whole search: the full model, importance, and at every level the winning, the random and the
losing ticket retrained from θ0. Score against remaining weight shows three phases: I up to the best level, II until
winning tickets are no better than random ones, III after it. ``subsets`` repeats all of it on seeded shares of the
training data (Figure 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tombola.errors import RecipeError, nearest
from tombola.plan.graph import Graph, unique
from tombola.studies.artefact import Artefact
from tombola.studies.phases_evidence import Phased
from tombola.studies.searches import Planned
from tombola.studies.study import Known, Plan
from tombola.studies.super_grid import GridSearch, grid_search
from tombola.studies.super_recipe import SuperRecipe

KINDS = ("winning", "random", "losing")


class PhasesRecipe(SuperRecipe):
    """``kinds``: which tickets are trained; winning ones always are. ``subsets``: shares of the training data."""

    kinds: tuple[Literal["winning", "random", "losing"], ...] = KINDS
    subsets: tuple[float | str, ...] = ("100%",)
    #: the tasks that are searched on every share; all where none are named
    subset_tasks: tuple[str, ...] = ()
    #: estimate both over the seeds at every level (Figure 1); one seed has none
    bias_and_variance: bool = True

    def check(self) -> None:
        super().check()
        if "winning" not in self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise RecipeError(
                f"kinds are {', '.join(self.kinds) or 'none'}",
                where="kinds",
                todo="give winning, and random and losing to compare it with, each once",
            )
        if not self.shares or len(set(self.shares)) < len(self.shares):
            raise RecipeError(
                "the shares of the training data must be different, and at least one",
                where="subsets",
                todo="give 100%, or several such as [100%, 50%, 20%, 10%]",
            )

        for name in self.subset_tasks:
            if name not in self.tasks:
                raise RecipeError(
                    f"'{name}' is no task of this study",
                    where="subset_tasks",
                    todo=nearest(name, list(self.tasks)),
                )

    @property
    def places(self) -> list[tuple[str, float]]:
        """(task, share of its training data) of every search, the largest shares first."""
        shares = sorted(self.shares, reverse=True)
        smaller = self.subset_tasks or tuple(self.tasks)
        return [
            (task, share) for share in shares for task in self.tasks if share == shares[0] or task in smaller
        ]

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(read_subset(share) for share in self.subsets)


def read_subset(share: float | str) -> float:
    """A share of the training data: as other shares are written, and 100 % besides."""
    from tombola.masks.share import read_share

    text = str(share).strip()
    return 1.0 if text in ("1", "1.0", "100%", "100 %") else read_share(text, "subsets")


@dataclass(frozen=True)
class Phases:
    """The study of one recipe; ``searches`` by task and share of the training data."""

    recipe: PhasesRecipe
    searches: dict[tuple[str, float], GridSearch]

    def plan(self, known: Known) -> Plan:
        phased = self.phased(known)
        rows = tuple(row for one in phased for row in one.found.every_row)
        trials = [step for grid in self.searches.values() for step in grid.trials]
        choices = [step for one in phased for step in one.found.search.choices.values()]
        spreads = [step for one in phased for step in one.decompositions]
        more = unique([*choices, *(spreads if self.recipe.bias_and_variance else [])])
        later = sum(grid.most_later for grid in self.searches.values() if grid.chosen(known) is None)
        return Plan(Graph(unique(trials)) + Planned(rows, self.recipe.keep).graph + Graph(more), later)

    def phased(self, known: Known) -> list[Phased]:
        """Every search whose recipe is chosen, with what is known of it; the whole training data first."""
        found = {place: grid.found(known) for place, grid in self.searches.items()}
        return [Phased(*place, search, known) for place, search in found.items() if search is not None]

    def artefacts(self, known: Known) -> tuple[Artefact, ...]:
        from tombola.studies.phases_figures import artefacts

        return artefacts(self, known)


def make(recipe: PhasesRecipe) -> Phases:
    searches = {}
    for task, share in recipe.places:
        problem = recipe.problem(task) if share == 1 else recipe.subset_problem(task, share)
        searches[task, share] = grid_search(recipe, problem, recipe.kinds)
    return Phases(recipe, searches)
