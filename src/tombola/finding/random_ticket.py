"""Random tickets m_RP⊙θ0: uniformly random over all prunable weights, exact size, without replacement (SPEC 2.3)."""

from __future__ import annotations

from typing import Literal, cast

from tombola.finding.settings import SearchSettings
from tombola.masks.schedule import zeros_wanted
from tombola.plan.problem import Problem
from tombola.plan.trainings import Candidate, Start, random_mask


def plan(problem: Problem, settings: SearchSettings, seed: int) -> dict[float, Candidate]:
    """A mask of its own for every seed and sparsity."""
    return {
        sparsity: Candidate(
            random_mask(
                problem,
                zeros=zeros_wanted(problem.model.prunable, sparsity),
                seed=seed,
                scope=cast(Literal["global", "layer"], settings.scope),
            ).out("mask.safetensors"),
            Start(),
        )
        for sparsity in settings.sparsities
    }
