"""Carry out a search of super tickets: hopeless levels left out, within a budget, with the model at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tombola.engine.store import Store
from tombola.finding.levels import Budget, at_levels, hopeless, within
from tombola.finding.outcome import tickets_of
from tombola.finding.search import Search
from tombola.finding.super_outcome import SuperOutcome, outcome_of
from tombola.finding.super_ticket import remaining_weight
from tombola.plan.graph import Graph
from tombola.plan.structures import load_structure

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from tombola.ticket import Ticket


@dataclass(frozen=True)
class TrainedModels:
    """The full model and the ticket's smaller one, as the first seed trained them."""

    full: PreTrainedModel
    ticket: PreTrainedModel


@dataclass(frozen=True)
class FoundSuper:
    """The ticket, what every level scored, and ``models``, where they were asked for."""

    ticket: Ticket
    outcome: SuperOutcome
    models: TrainedModels | None


def run_super(
    search: Search,
    store: Store,
    bring_about: Callable[[Graph], None],
    *,
    with_model: bool = True,
    stop_hopeless: bool = False,
    budget: Budget | None = None,
) -> FoundSuper:
    """Train the levels, let every seed choose one, and give the first seed's ticket."""
    if budget is not None and budget.kind == "params":
        search = within(
            search, budget, lambda level: remaining_weight(search.problem, level, search.settings.ffn_rule)
        )
    if budget is not None and budget.kind == "latency":
        bring_about(_structures(search))
        search = within(search, budget, _latency_of(search, store, budget))
    levels = search.settings.sparsities
    for count in range(1, len(levels)) if stop_hopeless else ():
        so_far = at_levels(search, levels[:count])
        bring_about(_graph(so_far, with_model))
        if hopeless(outcome_of(so_far, store.read_json)):
            search = so_far
            break
    bring_about(_graph(search, with_model))
    outcome = outcome_of(search, store.read_json)
    (ticket,) = tickets_of(search, store.read_json, store.path)
    return FoundSuper(ticket, outcome, _models(outcome, store) if with_model else None)


def _graph(search: Search, with_model: bool) -> Graph:
    """All of it, and the first seed's weights at every level: which one is chosen is not yet known."""
    if not with_model:
        return search.graph
    first = search.settings.seeds[0]
    trained = [search.dense[first], *(row[first] for row in search.retrained.values())]
    return replace(
        search.graph, outputs=(*search.graph.outputs, *(step.out("weights.safetensors") for step in trained))
    )


def scored(search: Search) -> Graph:
    """The first seed's structures and its full model: what a super ticket needs of a full training."""
    dense = search.dense[search.settings.seeds[0]]
    return replace(_structures(search), outputs=(dense.out("weights.safetensors"),))


def _structures(search: Search) -> Graph:
    """What is needed to measure the first seed's structures before anything smaller is trained."""
    first = search.settings.seeds[0]
    return Graph(tuple(row[first].mask.step for row in search.candidates.values()))


def _latency_of(search: Search, store: Store, budget: Budget) -> Callable[[float], float]:
    """The time of every level's structure as a share of the full model's; what the weights are makes no difference."""
    from tombola.deploy.latency import latency
    from tombola.models.build import HeadSpec, build_model
    from tombola.models.deployed import smaller
    from tombola.plan.materials import model_source

    problem, first = search.problem, search.settings.seeds[0]
    source = model_source(problem.model.source, problem.model.fingerprint)
    full = build_model(source, HeadSpec(problem.task.kind, problem.task.outputs), head_seed=0).eval()  # type: ignore[arg-type]
    models = {"full": full}
    for level, row in search.candidates.items():
        models[f"{level:g}"] = smaller(full, load_structure(store.path(row[first].mask)))
    measured = latency(
        models,
        batches=(budget.batch,),
        lengths=(budget.length,),
        threads=problem.numerics.threads,
        device=problem.numerics.device,
        precision=problem.numerics.precision,
    )
    cell = measured.cell(budget.batch, budget.length)
    return lambda level: cell.ratio(f"{level:g}", "full").value


def _models(outcome: SuperOutcome, store: Store) -> TrainedModels:
    from tombola.plan.train_step import trained_model

    search, first = outcome.search, outcome.search.settings.seeds[0]
    dense = search.dense[first]
    full = trained_model(dense, store.path(dense.out("weights.safetensors")))
    if not outcome.first:
        return TrainedModels(full, full)
    step = search.retrained[outcome.first][first]
    structure = store.path(search.candidates[outcome.first][first].mask)
    ticket = trained_model(step, store.path(step.out("weights.safetensors")), structure)
    return TrainedModels(full, ticket)
