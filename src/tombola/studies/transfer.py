"""Do tickets transfer between tasks? (BERT tickets: Figures 2a, 2b, 5, 6, Table 7; SPEC 2.6.)

TRANSFER(S, T): the ticket that a search on S found (with seed k), trained on T from θ0 (with seed k) by T's own recipe.
The ticket's task head stays behind. A ticket wins on T if it satisfies the criterion against T's full model; it is
universal if TRANSFER(S, T) ≥ TRANSFER(T, T) for every T.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tombola.errors import RecipeError, nearest
from tombola.finding.search import Search
from tombola.masks.schedule import zeros_wanted
from tombola.plan.trainings import Candidate, Start, pruning, retraining
from tombola.studies.artefact import Artefact
from tombola.studies.evidence import BySeed, Scores, all_known, primary, scores, winning_sparsity
from tombola.studies.recipe import Share, StudyRecipe, check_criteria
from tombola.studies.searches import Planned, searches
from tombola.studies.study import Known, Plan
from tombola.verifying.criteria import Criterion, parse

#: The last row of the papers' figures: the one-shot mask of |θ0|, which no task has chosen.
MAGNITUDE = "magnitude"


class TransferRecipe(StudyRecipe):
    """``figure_2`` and ``figure_5`` are the fixed sparsities of those figures, ``table_7`` its sources; what is null,
    false or empty is left out. ``sparsities`` are the grid on which each task's own winning sparsity is found."""

    #: all tasks of the study where none are named
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    criterion: str = "within_one_std"
    figure_2: Share | None = 0.7
    figure_5: Share | None = 0.5
    figure_6: bool = True
    table_7: tuple[str, ...] = ()
    magnitude_row: bool = True

    def check(self) -> None:
        super().check()
        check_criteria((self.criterion,), self.seeds)
        for place in ("sources", "targets", "table_7"):
            for name in getattr(self, place):
                if name not in self.tasks:
                    raise RecipeError(
                        f"'{name}' is no task of this study",
                        where=place,
                        todo=nearest(name, list(self.tasks)),
                    )
        if self.rewind != 0:
            raise RecipeError(
                "tickets that start from one task's own weights do not move to another task",
                where="rewind",
                todo="leave it out: transfer starts from θ0",
            )

    @property
    def all_sources(self) -> tuple[str, ...]:
        return self.sources or tuple(self.tasks)

    @property
    def all_targets(self) -> tuple[str, ...]:
        return self.targets or tuple(self.tasks)

    @property
    def fixed(self) -> tuple[float, ...]:
        """The sparsities of the figures that fix one."""
        return tuple(share for share in dict.fromkeys((self.figure_2, self.figure_5)) if share is not None)


@dataclass(frozen=True)
class Transfer:
    """The study of one recipe; ``searches`` by task."""

    recipe: TransferRecipe
    searches: dict[str, Search]

    def plan(self, known: Known) -> Plan:
        recipe = self.recipe
        rows = [self.searches[target].dense for target in recipe.all_targets]
        for sparsity in recipe.fixed:
            rows += [self.row(source, target, sparsity) for source, target in self.pairs()]
            # TRANSFER(T, T), which every source is measured by.
            rows += [self.row(target, target, sparsity) for target in recipe.all_targets]
        own = self.own_sparsity_tasks()
        rows += [row for task in own for row in self.search_rows(task)]
        later = 0
        if all_known(known, [row for task in own for row in self.search_rows(task)]):
            rows += [self.row(source, target, at) for source, target, at in self.at_winning(known)]
        elif own:
            pairs = len(self.pairs(with_magnitude=False)) if recipe.figure_6 else 0
            later = (pairs + len(recipe.table_7) * len(recipe.all_targets)) * len(recipe.seeds)
        return Plan(Planned(tuple(rows), recipe.keep).graph, later)

    def artefacts(self, known: Known) -> tuple[Artefact, ...]:
        from tombola.studies.transfer_figures import artefacts

        return artefacts(self, known)

    # -- rows ---------------------------------------------------------------------------------------------------

    def pairs(self, *, with_magnitude: bool = True) -> list[tuple[str, str]]:
        """(source, target) of every cell, the magnitude mask as the last source."""
        sources = list(self.recipe.all_sources)
        if with_magnitude and self.recipe.magnitude_row:
            sources.append(MAGNITUDE)
        return [(source, target) for source in sources for target in self.recipe.all_targets]

    def search_rows(self, task: str) -> list[BySeed]:
        """What decides a task's own winning sparsity."""
        search = self.searches[task]
        return [search.dense, *(search.retrained[share] for share in self.recipe.settings.sparsities)]

    def row(self, source: str, target: str, sparsity: float) -> BySeed:
        """TRANSFER(source, target): one training a seed. On its own task it is the search's own retraining."""
        if source == target:
            return self.searches[target].retrained[sparsity]
        problem = self.searches[target].problem
        label = f"ticket of {source} at {sparsity:.0%}"
        if source == MAGNITUDE:
            zeros = zeros_wanted(problem.model.prunable, sparsity)
            mask = pruning(
                problem, weights=None, within=None, zeros=zeros, label=f"magnitude of θ0 at {sparsity:.0%}"
            )
            candidates = dict.fromkeys(self.recipe.seeds, Candidate(mask.out("mask.safetensors"), Start()))
        else:
            candidates = self.searches[source].candidates[sparsity]
        return {
            seed: retraining(problem, candidate, seed, f"{label}, seed {seed}")
            for seed, candidate in candidates.items()
        }

    # -- what the scores decide ---------------------------------------------------------------------------------

    @property
    def criterion(self) -> Criterion:
        return parse(self.recipe.criterion)

    def own_sparsity_tasks(self) -> tuple[str, ...]:
        """The tasks whose own winning sparsity some figure needs."""
        names = self.recipe.all_sources if self.recipe.figure_6 else ()
        targets = self.recipe.all_targets if self.recipe.table_7 else ()
        return tuple(dict.fromkeys((*names, *targets)))

    def own_sparsity(self, known: Known, task: str) -> float | None:
        """The highest sparsity of the grid at which a task's own ticket wins."""
        search = self.searches[task]
        grid = {share: search.retrained[share] for share in self.recipe.settings.sparsities}
        return winning_sparsity(known, search.dense, grid, primary(search.problem), self.criterion)

    def at_winning(self, known: Known) -> Iterator[tuple[str, str, float]]:
        """(source, target, sparsity) of Figure 6 (the source's own) and of Table 7 (the target's own)."""
        if self.recipe.figure_6:
            for source, target in self.pairs(with_magnitude=False):
                at = self.own_sparsity(known, source)
                if at is not None:
                    yield source, target, at
        for source in self.recipe.table_7:
            for target in self.recipe.all_targets:
                at = self.own_sparsity(known, target)
                if at is not None:
                    yield source, target, at

    def scores(self, known: Known, source: str, target: str, sparsity: float | None) -> Scores | None:
        if sparsity is None:
            return None
        return scores(known, self.row(source, target, sparsity), primary(self.searches[target].problem))

    def full(self, known: Known, target: str) -> Scores | None:
        search = self.searches[target]
        return scores(known, search.dense, primary(search.problem))

    def wins(self, full: Scores | None, found: Scores | None) -> bool:
        if full is None or found is None or self.criterion.undecidable(full.values, found.values):
            return False
        return self.criterion.holds(full.values, found.values).holds


def make(recipe: TransferRecipe) -> Transfer:
    tasks = tuple(dict.fromkeys((*recipe.all_sources, *recipe.all_targets)))
    return Transfer(recipe, searches(recipe, tasks, recipe.fixed))
