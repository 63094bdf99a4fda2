"""One-shot magnitude pruning of the pre-trained weights: the `magnitude` row of the transfer figures (SPEC 2.3).

The mask drops the lowest |θ0|, without any training; the ticket starts from θ0.
"""

from __future__ import annotations

from tombola.finding.settings import SearchSettings
from tombola.masks.schedule import zeros_wanted
from tombola.plan.problem import Problem
from tombola.plan.trainings import Candidate, Start, pruning


def plan(problem: Problem, settings: SearchSettings, seed: int) -> dict[float, Candidate]:
    """The same mask for every seed: it depends on θ0 alone."""
    return {
        sparsity: Candidate(
            pruning(
                problem,
                weights=None,
                within=None,
                zeros=zeros_wanted(problem.model.prunable, sparsity),
                label=f"magnitude of θ0 at {sparsity:.0%}",
            ).out("mask.safetensors"),
            Start(),
        )
        for sparsity in settings.sparsities
    }
