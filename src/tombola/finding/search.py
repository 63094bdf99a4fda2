"""A search: for every seed its own dense training, masks and retrained tickets, as one graph (SPEC 1, "a run is a
whole search")."""

from __future__ import annotations

from dataclasses import dataclass, field

from tombola.finding.methods import Method
from tombola.finding.settings import SearchSettings
from tombola.finding.super_ticket import choose
from tombola.plan.graph import Graph
from tombola.plan.problem import Problem
from tombola.plan.step import Step
from tombola.plan.trainings import Candidate, dense_training, retraining


@dataclass(frozen=True)
class Search:
    """What is planned: ``dense[seed]``, ``candidates[sparsity][seed]`` and their ``retrained[sparsity][seed]``."""

    problem: Problem
    settings: SearchSettings
    method: str
    dense: dict[int, Step]
    candidates: dict[float, dict[int, Candidate]]
    retrained: dict[float, dict[int, Step]]
    #: of a method that chooses among levels: the choice of every seed
    choices: dict[int, Step] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """Every step, masks included, and the θi of the first seed's tickets: tickets are saved from them."""
        masks = [
            candidate.mask.step for by_seed in self.candidates.values() for candidate in by_seed.values()
        ]
        retrained = [step for by_seed in self.retrained.values() for step in by_seed.values()]
        first = self.settings.seeds[0]
        starts = [by_seed[first].start.ref for by_seed in self.candidates.values()]
        return Graph(
            wanted=(*self.dense.values(), *masks, *retrained, *self.choices.values()),
            outputs=tuple(ref for ref in starts if ref is not None),
        )


def plan_search(problem: Problem, settings: SearchSettings, method: Method) -> Search:
    """Plan the search of every seed, and the retraining that measures each of its tickets."""
    by_seed = {seed: method.plan(problem, settings, seed) for seed in settings.seeds}
    candidates = {
        sparsity: {seed: by_seed[seed][sparsity] for seed in settings.seeds}
        for sparsity in settings.sparsities
    }
    dense = {seed: dense_training(problem, seed) for seed in settings.seeds}
    retrained = {
        sparsity: {
            seed: retraining(problem, candidate, seed, f"{method.name} ticket at {sparsity:.0%}, seed {seed}")
            for seed, candidate in tickets.items()
        }
        for sparsity, tickets in candidates.items()
    }
    choices = {}
    if method.levels:
        choices = {
            seed: choose(
                problem, settings, dense[seed], {level: row[seed] for level, row in retrained.items()}, seed
            )
            for seed in settings.seeds
        }
    return Search(problem, settings, method.name, dense, candidates, retrained, choices)
