"""Iterative magnitude pruning from pre-trained weights (Chen et al. 2020, algorithm 1).

    m = 1;  θi = weights after i steps of dense training (i = 0: θ0)
    repeat
        train f(m⊙θi, γ) with the full recipe                    -> θt
        m <- m without the lowest |θt| among the kept, globally, up to the round's sparsity
        rewind: θ <- θi, γ <- γ of step i; i = 0: new optimizer and schedule; i > 0: those of step i
    until the wanted sparsity

``rewind="standard"`` keeps θt instead: the next round trains on from the surviving weights.
"""

from __future__ import annotations

from tombola.errors import RecipeError
from tombola.finding.settings import SearchSettings
from tombola.masks.schedule import round_sparsities, zeros_wanted
from tombola.plan.problem import Problem
from tombola.plan.step import Ref, Step
from tombola.plan.trainings import Candidate, Start, dense_training, pruning, training


def plan(problem: Problem, settings: SearchSettings, seed: int) -> dict[float, Candidate]:
    """One chain of rounds a target; chains of one schedule share their common rounds."""
    dense = dense_training(problem, seed)
    start = _rewinding_point(problem, settings, dense)
    #: the sparsities so far -> the mask after them and the training that its scores are of
    made: dict[tuple[float, ...], tuple[Ref, Step]] = {}
    return {
        target: _ticket(_chain(problem, settings, seed, target, dense, start, made), start)
        for target in settings.sparsities
    }


def _ticket(end: tuple[Ref, Step], start: Start | None) -> Candidate:
    mask, trained = end
    if start is None:
        # Standard pruning: the ticket is m⊙θt. The task head of a search is not part of a ticket.
        return Candidate(mask, Start("weights", ref=trained.out("weights.safetensors")))
    return Candidate(mask, start)


def _chain(
    problem: Problem,
    settings: SearchSettings,
    seed: int,
    target: float,
    dense: Step,
    start: Start | None,
    made: dict[tuple[float, ...], tuple[Ref, Step]],
) -> tuple[Ref, Step]:
    """The last mask of the rounds up to ``target``, and the training before it."""
    rounds = round_sparsities(settings.schedule, target, settings.step)
    mask, trained = None, dense
    for number, sparsity in enumerate(rounds, start=1):
        so_far = rounds[:number]
        if so_far not in made:
            if mask is not None:
                trained = _round(problem, seed, start, mask, trained, number)
            step = pruning(
                problem,
                weights=trained.out("weights.safetensors"),
                within=mask,
                zeros=zeros_wanted(problem.model.prunable, sparsity),
                label=f"IMP mask at {sparsity:.0%}, seed {seed}",
            )
            made[so_far] = step.out("mask.safetensors"), trained
        mask, trained = made[so_far]
    if mask is None:
        raise ValueError(f"the schedule {settings.schedule} has no round for {target}")
    return mask, trained


def _rewinding_point(problem: Problem, settings: SearchSettings, dense: Step) -> Start | None:
    """Where every round starts again; None for standard pruning."""
    if settings.rewind == "standard":
        return None
    if settings.rewind == 0.0:
        return Start()
    if problem.recipe.early_stopping:
        raise RecipeError(
            "a training that may stop early may never reach its rewinding point",
            where="rewind, early_stopping",
            todo="rewind to 0 (θ0), or train without early stopping",
        )
    step = round(float(settings.rewind) * problem.total_steps)
    if not 0 < step < problem.total_steps:
        raise RecipeError(
            f"{settings.rewind:.4%} of {problem.total_steps} steps is step {step}: nothing to rewind to",
            where="rewind",
            todo="0 for θ0, or a share that falls between the first and the last step",
        )
    return Start("state", ref=dense.out(f"state-{step}.safetensors"), head="kept", first_step=step)


def _round(problem: Problem, seed: int, start: Start | None, mask: Ref, trained: Step, number: int) -> Step:
    if start is None:
        start = Start("weights", ref=trained.out("weights.safetensors"), head="kept")
    return training(
        problem,
        seed=seed,
        purpose="search",
        start=start,
        mask=mask,
        label=f"IMP round {number}, seed {seed}",
    )
