"""What a finished search gives: one ticket a sparsity, or the one of the chosen level, with what was measured over
the seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.finding.search import Search
from tombola.finding.super_outcome import SuperOutcome, outcome_of
from tombola.masks.packing import load_mask
from tombola.masks.structure_mask import StructureMask
from tombola.plan.step import Ref
from tombola.plan.structures import load_structure, sizes_of

if TYPE_CHECKING:
    from torch import Tensor

    from tombola.masks.weight_mask import WeightMask
    from tombola.ticket import Ticket


def tickets_of(
    search: Search, read_json: Callable[[Ref], Any], path: Callable[[Ref], Path]
) -> tuple[Ticket, ...]:
    """The first seed's mask and start, the results of every seed."""
    if search.choices:
        return (_super_ticket(outcome_of(search, read_json), path),)
    return tuple(_ticket(search, sparsity, read_json, path) for sparsity in search.settings.sparsities)


def _ticket(
    search: Search, sparsity: float, read_json: Callable[[Ref], Any], path: Callable[[Ref], Path]
) -> Ticket:
    """m⊙θ0, m⊙θi or m⊙θt at one sparsity."""
    settings = search.settings
    candidate = search.candidates[sparsity][settings.seeds[0]]
    return _made(
        search,
        mask=load_mask(path(candidate.mask)),
        settings={
            "sparsity": sparsity,
            "schedule": settings.schedule,
            "step": settings.step,
            "rewind": settings.rewind,
            "scope": settings.scope,
        },
        start=_start(search, sparsity),
        results=_results(search, sparsity, read_json),
        start_state=_start_state(search, sparsity, path),
    )


def _super_ticket(outcome: SuperOutcome, path: Callable[[Ref], Path]) -> Ticket:
    """The smaller model of the level that the first seed chose; level 0 is the full model."""
    search, settings = outcome.search, outcome.search.settings
    if outcome.first:
        mask = load_structure(path(search.candidates[outcome.first][settings.seeds[0]].mask))
    else:
        mask = StructureMask.full(sizes_of(search.problem).heads)
    return _made(
        search,
        mask=mask,
        settings={
            "level": outcome.first,
            "levels": list(settings.sparsities),
            "ffn_rule": settings.ffn_rule,
            "granularity": settings.granularity,
            "select_share": settings.select_share,
            "select_seed": settings.select_seed,
            "include_full": settings.include_full,
        },
        start={"kind": "pretrained", "step": 0},
        results=outcome.results(),
    )


def _made(
    search: Search,
    *,
    mask: WeightMask | StructureMask,
    settings: dict[str, Any],
    start: dict[str, Any],
    results: dict[str, Any],
    start_state: dict[str, Tensor] | None = None,
) -> Ticket:
    from tombola.ticket import Ticket

    problem = search.problem
    sizes = problem.model.sizes if isinstance(mask, StructureMask) else None
    return Ticket(
        mask=mask,
        model={
            "source": problem.model.name,
            "kind": problem.model.kind,
            "revision": problem.model.revision,
            "fingerprint": problem.model.fingerprint,
            "config": problem.model.config,
            "family": problem.model.family,
            "prefix": problem.model.prefix,
            "optional": list(problem.model.optional),
            **({} if sizes is None else {"sizes": asdict(sizes)}),
        },
        task={
            "name": problem.task.name,
            "fingerprint": problem.task.fingerprint,
            "kind": problem.task.kind,
            "labels": list(problem.task.labels),
            "metrics": list(problem.task.metrics),
            "own_files": problem.task.source.get("data") is not None,
            "max_train": problem.task.source.get("max_train"),
            "max_eval": problem.task.source.get("max_eval"),
        },
        method=search.method,
        settings={
            **settings,
            "seed": search.settings.seeds[0],
            "recipe": problem.recipe.to_json(),
            "numerics": problem.numerics.to_json(),
        },
        start=start,
        results=results,
        start_state=start_state,
    )


def _start(search: Search, sparsity: float) -> dict[str, Any]:
    start = search.candidates[sparsity][search.settings.seeds[0]].start
    if start.kind == "pretrained":
        return {"kind": "pretrained", "step": 0}
    return {"kind": "rewound" if start.kind == "state" else "trained", "step": start.first_step}


def _start_state(search: Search, sparsity: float, path: Callable[[Ref], Path]) -> dict[str, Tensor] | None:
    """θi (with its head) or θt (without): weights only, no optimizer, in the portable names."""
    from tombola import files
    from tombola.plan.train_step import HEAD

    start = search.candidates[sparsity][search.settings.seeds[0]].start
    if start.ref is None:
        return None
    tensors = files.read_tensors(path(start.ref))
    if start.kind == "weights":
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(HEAD)}
    prefix = f"{search.problem.model.prefix}."
    portable = {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition("/")
        if part == "model":
            portable[rest.removeprefix(prefix) if rest.startswith(prefix) else f"{HEAD}{rest}"] = tensor
    return portable


def _results(search: Search, sparsity: float, read_json: Callable[[Ref], Any]) -> dict[str, Any]:
    """Scores of the full model and of the ticket, seed by seed; each seed had a search of its own."""
    from tombola.verifying.summary import summarize

    metrics = search.problem.task.metrics
    rows = {"full": search.dense, "ticket": search.retrained[sparsity]}
    found = {
        name: [read_json(step.out("metrics.json"))["dev"] for step in row.values()]
        for name, row in rows.items()
    }
    return {
        "metric": metrics[0],
        "seeds": list(search.settings.seeds),
        "own_search_per_seed": True,
        "scores": {
            name: {metric: [scores[metric] for scores in by_seed] for metric in metrics}
            for name, by_seed in found.items()
        },
        "summary": {
            name: summarize([scores[metrics[0]] for scores in by_seed]).to_json()
            for name, by_seed in found.items()
        },
        "runs": {name: [step.identity for step in row.values()] for name, row in rows.items()},
    }
