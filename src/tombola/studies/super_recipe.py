"""What the recipes of super-ticket studies have in common: levels instead of sparsities (SPEC 3.1–3.4)."""

from __future__ import annotations

from pydantic import Field

from tombola.errors import RecipeError, nearest
from tombola.finding.methods import get_method
from tombola.finding.settings import SearchSettings
from tombola.masks.levels import LEVELS
from tombola.studies.recipe import Share, StudyRecipe
from tombola.training.recipe import Recipe

#: What a grid may try (SPEC 3.4).
IN_GRID = ("learning_rate", "batch_size")
#: Settings of other methods: a recipe that names one of these means something that is not done here.
NOT_READ = ("sparsities", "schedule", "step", "rewind", "scope")


class SuperRecipe(StudyRecipe):
    """``levels`` are the shares of heads and FFNs that are removed; the level is chosen on ``select_share`` of the
    development set, drawn by ``select_seed``. ``grid``: learning rates and batch sizes to choose from, once a task."""

    method: str = "super"
    levels: tuple[Share, ...] = LEVELS
    ffn_rule: str = "floor"
    granularity: str = "example"
    select_share: float = 0.1
    select_seed: int = 0
    include_full: bool = False
    grid: dict[str, tuple[int | float, ...]] = Field(default={})

    def check(self) -> None:
        if not get_method(self.method).levels:
            raise RecipeError(
                f"the method '{self.method}' has no levels",
                where="method",
                todo="leave it out: these studies are about super tickets",
            )
        for name in NOT_READ:
            if name in self.model_fields_set:
                raise RecipeError(
                    f"a study of super tickets does not read {name}",
                    where=name,
                    todo="give levels instead" if name == "sparsities" else "leave it out",
                )
        super().check()
        for task in self.tasks:
            self._check_shares(self.recipe_of(task), task)
            self._check_grid(self.recipe_of(task), task)

    @property
    def settings(self) -> SearchSettings:
        return SearchSettings(
            sparsities=tuple(sorted(set(self.levels))),
            seeds=self.seeds,
            ffn_rule=self.ffn_rule,
            granularity=self.granularity,
            select_share=self.select_share,
            select_seed=self.select_seed,
            include_full=self.include_full,
        )

    def _check_grid(self, training: Recipe, task: str) -> None:
        for name, values in self.grid.items():
            if name not in IN_GRID:
                raise RecipeError(f"a grid cannot try {name}", where="grid", todo=nearest(name, IN_GRID))
            if not values or len(set(values)) < len(values):
                raise RecipeError(
                    f"the grid's values of {name} must be different, and at least one", where=f"grid.{name}"
                )
            for value in values:
                training.with_(**{name: value})
        if self.grid and not training.early_stopping:
            raise RecipeError(
                f"{task} is trained without early stopping, so no share of its development set is scored to choose by",
                where="grid",
                todo="set training.early_stopping: true, or leave the grid out",
            )

    def _check_shares(self, training: Recipe, task: str) -> None:
        """Trainings must stop by the examples that levels are chosen on: else nothing of dev is left untouched."""
        stops_by = (training.stop_share, training.stop_seed)
        if training.early_stopping and stops_by != (self.select_share, self.select_seed):
            raise RecipeError(
                f"{task} stops by a share of {stops_by[0]:g} of the development set drawn by seed {stops_by[1]}, "
                f"levels are chosen on {self.select_share:g} drawn by seed {self.select_seed}: the rest would not be "
                "unbiased",
                where="training",
                todo="give stop_share and stop_seed as select_share and select_seed are",
            )
