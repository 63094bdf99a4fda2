"""What a search is asked for: sparsities, seeds, schedule, rewinding point."""

from __future__ import annotations

from dataclasses import dataclass

from tombola.errors import RecipeError, nearest

#: θ0, a share of the training (θi), or no rewinding at all ("standard pruning").
Rewind = float | str

CHOICES = {
    "scope": ("global", "layer"),
    "ffn_rule": ("floor", "authors"),
    "granularity": ("example", "token", "batch"),
}


@dataclass(frozen=True)
class SearchSettings:
    """``rewind`` is 0 (θ0), a share of the training such as 0.05 (θi), or ``"standard"`` (θt is kept).

    ``sparsities`` are the levels of a method that chooses among levels; ``select_share`` of the development set
    (drawn by ``select_seed``) is what it chooses on.
    """

    sparsities: tuple[float, ...] = (0.5,)
    seeds: tuple[int, ...] = (0,)
    schedule: str = "linear"
    step: float = 0.1
    rewind: Rewind = 0.0
    scope: str = "global"
    ffn_rule: str = "floor"
    granularity: str = "example"
    select_share: float = 0.1
    select_seed: int = 0
    include_full: bool = False

    def __post_init__(self) -> None:
        from tombola.masks.schedule import SCHEDULES

        if not self.sparsities:
            raise RecipeError(
                "no sparsity is asked for", where="sparsities", todo="give at least one, such as 0.5"
            )
        for sparsity in self.sparsities:
            if not 0.0 < sparsity < 1.0:
                raise RecipeError(
                    f"a sparsity of {sparsity} cannot be a ticket's",
                    where="sparsities",
                    todo="give shares between 0 and 1, such as 0.7 for 70 %",
                )
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise RecipeError("seeds must be different, and at least one", where=f"seeds {self.seeds}")
        if self.schedule not in SCHEDULES:
            raise RecipeError(
                f"there is no pruning schedule '{self.schedule}'",
                where="schedule",
                todo=nearest(self.schedule, list(SCHEDULES)),
            )
        if not 0.0 < self.step < 1.0:
            raise RecipeError(f"a step of {self.step} a round is not between 0 and 1", where="step")
        if isinstance(self.rewind, str):
            if self.rewind != "standard":
                raise RecipeError(
                    f"rewinding to '{self.rewind}' is unknown",
                    where="rewind",
                    todo="0 for θ0, a share of the training such as 0.05, or 'standard' for no rewinding",
                )
        elif not 0.0 <= self.rewind < 1.0:
            raise RecipeError(
                f"rewinding to {self.rewind} of the training is not possible",
                where="rewind",
                todo="give a share from 0 (θ0) to below 1, such as 0.05",
            )
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise RecipeError(
                    f"{name} cannot be '{getattr(self, name)}'",
                    where=name,
                    todo=nearest(str(getattr(self, name)), known),
                )
        if not 0.0 < self.select_share < 1.0:
            raise RecipeError(
                f"a level cannot be chosen on a share of {self.select_share} of the development set",
                where="select_share",
                todo="give a share between 0 and 1, such as 0.1",
            )
