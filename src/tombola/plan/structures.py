"""The steps that super tickets are made of, as values: importance, structures, the choice of a level (SPEC 3.1–3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tombola import files
from tombola.errors import UnsupportedModel
from tombola.masks.structure_mask import StructureMask
from tombola.masks.structure_sizes import StructureSizes
from tombola.plan.problem import Problem
from tombola.plan.step import Step

#: What a step that makes a structure puts out, and what a training that takes one reads.
STRUCTURE = "structure.json"
Kept = Literal["winning", "losing"]


@dataclass(frozen=True)
class Selection:
    """How a level is chosen: on a seeded share of the development set, never on what is reported (trap 16)."""

    share: float = 0.1
    seed: int = 0
    #: whether level 0, the full model, may be chosen
    include_full: bool = False


def sizes_of(problem: Problem) -> StructureSizes:
    """The heads and FFNs of a problem's model."""
    if problem.model.sizes is None:
        raise UnsupportedModel(
            "the model offers no heads and FFNs to remove",
            where=problem.model.name,
            todo="search a weight ticket instead: --method imp",
        )
    return problem.model.sizes


def importance_scores(problem: Problem, trained: Step, *, granularity: str, seed: int) -> Step:
    """|∂L/∂gate| of every head and FFN over the training set, in the model that a training ended with."""
    return Step(
        kind="importance",
        version=1,
        parameters={
            "model": problem.model.identified,
            "task": problem.task.identified,
            "max_length": problem.recipe.max_length,
            "numerics": problem.numerics.to_json(),
            "granularity": granularity,
            "batch_size": problem.recipe.batch_size,
        },
        inputs={"weights": trained.out("weights.safetensors")},
        sources={"model": dict(problem.model.source), "task": dict(problem.task.source)},
        label=f"{problem.task.name}: importance, seed {seed}",
    )


def structure(problem: Problem, importance: Step, *, kept: Kept, heads: int, ffns: int, label: str) -> Step:
    """The ticket without ``heads`` heads and ``ffns`` FFNs: the least important ones, or (losing) the most."""
    return Step(
        kind="structure",
        version=1,
        parameters={
            "kept": kept,
            "heads": heads,
            "ffns": ffns,
            "heads_per_layer": list(sizes_of(problem).heads),
        },
        inputs={"importance": importance.out("importance.json")},
        label=label,
    )


def random_structure(problem: Problem, *, heads: int, ffns: int, seed: int) -> Step:
    """A ticket of the same size drawn uniformly, without replacement."""
    return Step(
        kind="random_structure",
        version=1,
        parameters={
            "heads": heads,
            "ffns": ffns,
            "seed": seed,
            "heads_per_layer": list(sizes_of(problem).heads),
        },
        label="random structure",
    )


def level_choice(
    problem: Problem,
    rows: Mapping[float, Step],
    weights: Mapping[float, float],
    how: Selection,
    *,
    label: str,
) -> Step:
    """Score every level on the seeded share of dev, on the rest and on all of it, and choose the best by the share.

    ``rows``: the retrained ticket of each level, and the full model at 0; ``weights``: what each level leaves.
    """
    return Step(
        kind="choose_level",
        version=1,
        parameters={
            "task": problem.task.identified,
            "levels": {f"{level:g}": weights[level] for level in rows},
            "share": how.share,
            "seed": how.seed,
            "include_full": how.include_full,
        },
        inputs={f"{level:g}": step.out("predictions.safetensors") for level, step in rows.items()},
        sources={
            "model": dict(problem.model.source),
            "task": dict(problem.task.source),
            "max_length": problem.recipe.max_length,
        },
        label=label,
    )


def load_structure(path: Path) -> StructureMask:
    """A structure as its step has put it out."""
    return StructureMask.from_json(files.read_json(path), where=str(path))
