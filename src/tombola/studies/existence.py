"""Do winning tickets exist in a pre-trained model? (BERT tickets: Tables 2, 4, 5, 6, Figure 11; SPEC 2.6.)

For every task and seed: the full model, a search, the retrained ticket at every sparsity of the grid. Where a task
wins by one of the criteria, the controls of the ticket (random, reinit, shuffle …) are trained at that sparsity; with
``controls_at: all`` at every one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tombola.finding.search import Search
from tombola.masks.schedule import zeros_wanted
from tombola.plan.trainings import retraining
from tombola.studies.artefact import Artefact
from tombola.studies.evidence import BySeed, Measure, all_known, measures, primary, winning_sparsity
from tombola.studies.recipe import Share, StudyRecipe, check_criteria, check_rows
from tombola.studies.searches import Planned, searches
from tombola.studies.study import Known, Plan
from tombola.verifying.claim import WeightClaim
from tombola.verifying.controls import CONTROLS
from tombola.verifying.criteria import Criterion, parse


class ExistenceRecipe(StudyRecipe):
    """``sparsities`` are the grid of Figure 11, ``criteria`` those of the tables (SPEC 2.5)."""

    sparsities: tuple[Share, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    criteria: tuple[str, ...] = ("within_one_std", "match_or_exceed", "within_points:2")
    controls: tuple[str, ...] = ("random", "reinit", "shuffle")
    controls_at: Literal["winning", "all"] = "winning"

    def check(self) -> None:
        super().check()
        check_criteria(self.criteria, self.seeds)
        check_rows(self.controls)


@dataclass(frozen=True)
class Existence:
    """The study of one recipe; ``searches`` by task."""

    recipe: ExistenceRecipe
    searches: dict[str, Search]

    def plan(self, known: Known) -> Plan:
        rows = [row for search in self.searches.values() for row in self.search_rows(search)]
        later = 0
        for task, search in self.searches.items():
            if self.recipe.controls_at == "all" or all_known(known, self.search_rows(search)):
                rows += [
                    self.control_row(search, name, sparsity)
                    for sparsity in self.control_sparsities(known, task)
                    for name in self.recipe.controls
                ]
            else:
                most = min(len(self.recipe.criteria), len(search.settings.sparsities))
                later += most * len(self.recipe.controls) * len(self.recipe.seeds)
        return Plan(Planned(tuple(rows), self.recipe.keep).graph, later)

    def artefacts(self, known: Known) -> tuple[Artefact, ...]:
        from tombola.studies.existence_tables import artefacts

        return artefacts(self, known)

    # -- rows ---------------------------------------------------------------------------------------------------

    def search_rows(self, search: Search) -> list[BySeed]:
        """The full model and the tickets of the grid."""
        return [search.dense, *search.retrained.values()]

    def control_row(self, search: Search, name: str, sparsity: float) -> BySeed:
        """One control of the tickets at one sparsity, paired with them by seed."""
        prunable = search.problem.model.prunable
        claim = WeightClaim(zeros_wanted(prunable, sparsity), prunable)
        return {
            seed: retraining(
                search.problem,
                CONTROLS[name](search.problem, candidate, claim, seed),
                seed,
                f"{name} at {sparsity:.0%}, seed {seed}",
            )
            for seed, candidate in search.candidates[sparsity].items()
        }

    # -- what the scores decide ---------------------------------------------------------------------------------

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return tuple(parse(text) for text in self.recipe.criteria)

    def winning(
        self, known: Known, task: str, criterion: Criterion, measure: Measure | None = None
    ) -> float | None:
        """The highest winning sparsity of a task, by its first metric unless another measure is asked for."""
        search = self.searches[task]
        measure = measure or primary(search.problem)
        return winning_sparsity(known, search.dense, search.retrained, measure, criterion)

    def control_sparsities(self, known: Known, task: str) -> tuple[float, ...]:
        """Where the tables need controls: at every sparsity that wins by some criterion."""
        if self.recipe.controls_at == "all":
            return self.searches[task].settings.sparsities
        found = {self.winning(known, task, criterion) for criterion in self.criteria}
        return tuple(sorted(sparsity for sparsity in found if sparsity is not None))

    def measures(self, known: Known, task: str) -> tuple[Measure, ...]:
        search = self.searches[task]
        return measures(search.problem, known, search.dense)

    def every_row(self, known: Known) -> Iterator[tuple[str, str, float, BySeed]]:
        """(task, name of the row, sparsity, trainings) of everything that was planned."""
        for task, search in self.searches.items():
            yield task, "full", 0.0, search.dense
            for sparsity, row in search.retrained.items():
                yield task, search.method, sparsity, row
            for sparsity in self.control_sparsities(known, task):
                for name in self.recipe.controls:
                    yield task, name, sparsity, self.control_row(search, name, sparsity)


def make(recipe: ExistenceRecipe) -> Existence:
    return Existence(recipe, searches(recipe, recipe.tasks))
