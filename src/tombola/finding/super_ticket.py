"""Super tickets: heads and FFNs pruned by importance, at several levels (Liang et al. 2021; SPEC 3.1–3.3).

    train f(x; θ0, γ) on the task                                    -> θt
    I = E_x |∂L(x)/∂gate| of every head and FFN, at θt, all gates 1
    at every level p: remove the lowest ⌊p·H⌋ heads and ⌊p·L⌋ FFNs, one shot, globally
    rewind to θ0, fresh head, train the smaller model                -> its score on a seeded share of dev
    the super ticket is the level with the best of those scores

``losing`` tickets keep the lowest instead, ``random`` ones any: what the winning ones are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tombola.finding.settings import SearchSettings
from tombola.masks.levels import ffns_removed_at, heads_removed_at
from tombola.plan.problem import Problem
from tombola.plan.step import Step
from tombola.plan.structures import (
    STRUCTURE,
    Selection,
    importance_scores,
    level_choice,
    random_structure,
    sizes_of,
    structure,
)
from tombola.plan.trainings import Candidate, Start, dense_training
from tombola.streams import derive

Kind = Literal["winning", "losing", "random"]


def plan(problem: Problem, settings: SearchSettings, seed: int) -> dict[float, Candidate]:
    """The winning ticket of every level; ``settings.sparsities`` are the levels."""
    return tickets(problem, settings, seed, "winning")


def tickets(problem: Problem, settings: SearchSettings, seed: int, kind: Kind) -> dict[float, Candidate]:
    """The tickets of one kind at every level, all of the same size at the same level."""
    found = {}
    trained = dense_training(problem, seed)
    scores = importance_scores(problem, trained, granularity=settings.granularity, seed=seed)
    for level in settings.sparsities:
        heads, ffns = parts_removed(problem, level, settings.ffn_rule)
        if kind == "random":
            made = random_structure(problem, heads=heads, ffns=ffns, seed=derive(seed, "random ticket"))
        else:
            label = f"{kind} structure at {level:.0%}, seed {seed}"
            made = structure(problem, scores, kept=kind, heads=heads, ffns=ffns, label=label)
        found[level] = Candidate(made.out(STRUCTURE), Start())
    return found


def parts_removed(problem: Problem, level: float, ffn_rule: str) -> tuple[int, int]:
    """How many heads and FFNs are gone at a level."""
    sizes = sizes_of(problem)
    return heads_removed_at(level, sum(sizes.heads)), ffns_removed_at(level, len(sizes.heads), ffn_rule)


def remaining_weight(problem: Problem, level: float, ffn_rule: str) -> float:
    """The share of the whole pre-trained model that tickets of a level keep (as the paper prints it)."""
    if level == 0:
        return 1.0
    return sizes_of(problem).remaining_without(*parts_removed(problem, level, ffn_rule))


def choose(
    problem: Problem, settings: SearchSettings, full: Step, retrained: Mapping[float, Step], seed: int
) -> Step:
    """The choice among the levels of one seed."""
    rows = {0.0: full, **retrained}
    weights = {level: remaining_weight(problem, level, settings.ffn_rule) for level in rows}
    how = Selection(settings.select_share, settings.select_seed, settings.include_full)
    return level_choice(
        problem, rows, weights, how, label=f"{problem.task.name}: choice of a level, seed {seed}"
    )
