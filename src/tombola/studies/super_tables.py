"""Super tickets against full models (Super tickets: Tables 1, 2, 6, 7, 9, Figure 3; SPEC 3.4, 3.6).

Every seed is a whole search and its ticket stands at the level that the seed chose itself, on a share of the
development set. With ``submission`` the seed with the best average over tasks answers the test sets of GLUE.
"""

from __future__ import annotations

from dataclasses import dataclass

from tombola.plan.evaluations import prediction
from tombola.plan.graph import Graph, unique
from tombola.plan.materials import further_splits
from tombola.plan.step import Step
from tombola.studies.artefact import Artefact
from tombola.studies.searches import Planned
from tombola.studies.study import Known, Plan
from tombola.studies.super_grid import GridSearch, grid_search
from tombola.studies.super_outcomes import TaskOutcome, average
from tombola.studies.super_recipe import SuperRecipe
from tombola.tasks.submission import FILES


class SuperTablesRecipe(SuperRecipe):
    """``submission``: answer the test sets of GLUE's tasks, where their files are there (Table 2)."""

    submission: bool = False


@dataclass(frozen=True)
class SuperTables:
    """The study of one recipe; ``searches`` by task, ``further`` by task: its splits beside train and dev."""

    recipe: SuperTablesRecipe
    searches: dict[str, GridSearch]
    further: dict[str, dict[str, dict[str, object]]]

    def plan(self, known: Known) -> Plan:
        trials = unique(step for grid in self.searches.values() for step in grid.trials)
        tasks = self.tasks(known)
        rows = tuple(row for task in tasks for row in task.found.every_row)
        choices = unique(step for task in tasks for step in task.found.search.choices.values())
        predictions = unique(self.predictions(known).values())
        graph = Graph(trials) + Planned(rows, self.recipe.keep).graph + Graph((*choices, *predictions))
        return Plan(graph, self._later(known))

    def artefacts(self, known: Known) -> tuple[Artefact, ...]:
        from tombola.studies.super_tables_results import artefacts

        return artefacts(self, known)

    def tasks(self, known: Known) -> list[TaskOutcome]:
        """Every task whose recipe is chosen."""
        found = {task: grid.found(known) for task, grid in self.searches.items()}
        return [TaskOutcome(task, search, known) for task, search in found.items() if search is not None]

    # -- the benchmark's test sets ------------------------------------------------------------------------------

    def best_seed(self, known: Known) -> int | None:
        """The seed whose tickets have the best average over tasks on the development sets; None while one misses."""
        tasks = self.tasks(known)
        found = average(tasks, "ticket", "dev") if len(tasks) == len(self.searches) else None
        if found is None:
            return None
        return self.recipe.seeds[found.values.index(max(found.values))]

    def test_splits(self, task: str) -> dict[str, str]:
        """The fingerprints of the test sets of a task that the benchmark asks for and that are there."""
        wanted = {file.split for file in FILES.values() if file.task == self.benchmark_task(task)}
        return {
            split: str(facts["fingerprint"]) for split, facts in self.further[task].items() if split in wanted
        }

    def benchmark_task(self, task: str) -> str | None:
        """The task's name where it is a shipped one, not somebody's own files."""
        return None if self.recipe.choice(task).data is not None else self.problem_name(task)

    def problem_name(self, task: str) -> str:
        return self.searches[task].problems[0].task.name

    def predictions(self, known: Known) -> dict[str, Step]:
        """By task, the step that answers its test sets; none while the best seed is not known."""
        seed = self.best_seed(known) if self.recipe.submission else None
        if seed is None:
            return {}
        return {
            task.task: prediction(
                task.found.problem,
                task.training("ticket", seed),
                splits,
                structure=task.structure(seed),
                label=f"answers to the test set, seed {seed}",
            )
            for task in self.tasks(known)
            if (splits := self.test_splits(task.task))
        }

    def _later(self, known: Known) -> int:
        later = sum(grid.most_later for grid in self.searches.values() if grid.chosen(known) is None)
        if self.recipe.submission and "weights" not in self.recipe.keep and self.best_seed(known) is None:
            # The weights of these were dropped: their trainings run again.
            later += sum(bool(self.test_splits(task)) for task in self.searches)
        return later


def make(recipe: SuperTablesRecipe) -> SuperTables:
    searches = {task: grid_search(recipe, recipe.problem(task)) for task in recipe.tasks}
    further = {task: further_splits(grid.problems[0].task) for task, grid in searches.items()}
    return SuperTables(recipe, searches, further)
