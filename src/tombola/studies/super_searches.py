"""The searches of super-ticket studies: on every task (or a share of its training data) the full model, the winning
tickets of every level with each seed's choice, and the random and losing tickets that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tombola.finding.search import Search
from tombola.finding.super_ticket import Kind, parts_removed, remaining_weight, tickets
from tombola.plan.problem import Problem
from tombola.plan.structures import sizes_of
from tombola.plan.trainings import retraining
from tombola.studies.evidence import BySeed


@dataclass(frozen=True)
class SuperSearch:
    """One search and its controls; ``rows[kind][level]`` are the retrained tickets of all seeds."""

    search: Search
    kinds: tuple[Kind, ...] = ("winning",)

    @property
    def problem(self) -> Problem:
        return self.search.problem

    @property
    def levels(self) -> tuple[float, ...]:
        return self.search.settings.sparsities

    @cached_property
    def rows(self) -> dict[Kind, dict[float, BySeed]]:
        return {kind: self._rows(kind) for kind in self.kinds}

    @property
    def every_row(self) -> list[BySeed]:
        """The full model, then level by level every kind."""
        return [self.search.dense, *(self.rows[kind][level] for level in self.levels for kind in self.kinds)]

    def removed(self, level: float) -> tuple[int, int]:
        """Heads and FFNs that are gone at a level."""
        return parts_removed(self.problem, level, self.search.settings.ffn_rule) if level else (0, 0)

    def remaining(self, level: float) -> float:
        """Of all parameters of the pre-trained model, as the paper prints it."""
        return remaining_weight(self.problem, level, self.search.settings.ffn_rule)

    def remaining_of_encoder(self, level: float) -> float:
        sizes = sizes_of(self.problem)
        return 1.0 - (1.0 - self.remaining(level)) * sizes.parameters / sizes.encoder

    def _rows(self, kind: Kind) -> dict[float, BySeed]:
        if kind == "winning":
            return dict(self.search.retrained)
        settings = self.search.settings
        by_seed = {seed: tickets(self.problem, settings, seed, kind) for seed in settings.seeds}
        return {
            level: {
                seed: retraining(
                    self.problem, found[level], seed, f"{kind} ticket at {level:.0%}, seed {seed}"
                )
                for seed, found in by_seed.items()
            }
            for level in self.levels
        }
