"""The steps that searches are made of, as values: train, prune, draw a random mask, bring in a ticket from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tombola.plan.problem import Problem
from tombola.plan.step import Ref, Step
from tombola.plan.structures import STRUCTURE, sizes_of

Kind = Literal["pretrained", "reinit", "shuffled_layers", "shuffled_within", "weights", "state"]
#: ``search`` finds masks, ``retrain`` evaluates them: other data order, other head, other dropout (SPEC 2.2).
Purpose = Literal["search", "retrain"]


@dataclass(frozen=True)
class Start:
    """The weights a training starts from.

    ``pretrained`` is θ0; ``reinit`` θ0′ and ``shuffled_*`` θ0″ are the controls, drawn from ``seed``; ``weights`` are
    another run's weights (``head`` kept or fresh, the schedule entered at ``first_step``); ``state`` is θi with head,
    optimizer and schedule of step i.
    """

    kind: Kind = "pretrained"
    ref: Ref | None = None
    seed: int | None = None
    head: Literal["fresh", "kept"] = "fresh"
    first_step: int = 0


@dataclass(frozen=True)
class Candidate:
    """A ticket that is planned: the mask (of weights, or a structure) some step will make, and where its weights
    start."""

    mask: Ref
    start: Start


def training(
    problem: Problem, *, seed: int, purpose: Purpose, start: Start, mask: Ref | None, label: str
) -> Step:
    """Train f(m⊙start, γ) with the full recipe and score it on the development set at the last step."""
    inputs: dict[str, Ref] = {}
    if mask is not None:
        inputs["structure" if mask.output == STRUCTURE else "mask"] = mask
    if start.ref is not None:
        inputs["start"] = start.ref
    return Step(
        kind="train",
        version=3,
        parameters={
            "model": problem.model.identified,
            "task": problem.task.identified,
            "recipe": problem.recipe.to_json(),
            "numerics": problem.numerics.to_json(),
            "seed": seed,
            "purpose": purpose,
            "start": {
                "kind": start.kind,
                "seed": start.seed,
                "head": start.head,
                "first_step": start.first_step,
            },
        },
        inputs=inputs,
        sources={"model": dict(problem.model.source), "task": dict(problem.task.source)},
        label=f"{problem.task.name}: {label}",
        cost=problem.total_steps - start.first_step,
    )


def dense_training(problem: Problem, seed: int) -> Step:
    """The full model of one seed; also the first round of every search of that seed."""
    return training(
        problem, seed=seed, purpose="search", start=Start(), mask=None, label=f"full model, seed {seed}"
    )


def retraining(problem: Problem, candidate: Candidate, seed: int, label: str) -> Step:
    """Evaluate a ticket: fresh head, a different data order, full recipe (SPEC 2.2)."""
    return training(
        problem, seed=seed, purpose="retrain", start=candidate.start, mask=candidate.mask, label=label
    )


def pruning(
    problem: Problem,
    *,
    weights: Ref | None,
    within: Ref | None,
    zeros: int,
    label: str,
    score: str = "magnitude",
) -> Step:
    """The lowest scores among the kept go, globally, until ``zeros`` entries are gone; ``weights=None`` scores θ0."""
    inputs: dict[str, Ref] = {}
    if weights is not None:
        inputs["weights"] = weights
    if within is not None:
        inputs["within"] = within
    return Step(
        kind="prune",
        version=1,
        parameters={
            "model": None if weights is not None else {"fingerprint": problem.model.fingerprint},
            "shapes": problem.model.listed_shapes,
            "score": score,
            "zeros": zeros,
        },
        inputs=inputs,
        sources={"model": dict(problem.model.source)},
        label=label,
    )


def random_mask(
    problem: Problem,
    *,
    zeros: int,
    seed: int,
    scope: Literal["global", "layer"] = "global",
    like: Ref | None = None,
) -> Step:
    """A uniformly random mask with exactly ``zeros`` zeros, or with those of ``like`` (``layer``: per tensor)."""
    return Step(
        kind="random_mask",
        version=1,
        parameters={
            "shapes": problem.model.listed_shapes,
            "zeros": None if like is not None else zeros,
            "scope": scope,
            "seed": seed,
        },
        inputs={} if like is None else {"like": like},
        label="random mask",
    )


def ticket_import(
    problem: Problem, *, ticket: str, folder: str, revision: str | None = None, structured: bool = False
) -> Step:
    """Bring a ticket's mask (and its θi, if it has one) into the store; ``ticket`` is its identity."""
    about = (
        {"heads_per_layer": list(sizes_of(problem).heads)}
        if structured
        else {"shapes": problem.model.listed_shapes}
    )
    return Step(
        kind="import_ticket",
        version=1,
        parameters={"ticket": ticket, **about},
        sources={"ticket": folder, "revision": revision},
        label="the ticket's mask",
    )
