"""The verbs as Python functions: ``find``, ``verify``, ``load``. Each plans a graph, runs it through the store, and
reads the result."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.errors import UsageError
from tombola.finding.methods import get_method
from tombola.finding.search import Search, plan_search
from tombola.finding.settings import Rewind, SearchSettings
from tombola.plan.defaults import make_numerics, make_recipe
from tombola.plan.materials import cache_folder
from tombola.plan.materials import problem as make_problem
from tombola.tasks.task import DataOptions
from tombola.training.recipe import Numerics, Recipe
from tombola.verifying.ticket_verification import VerifySettings, plan_verify, precision_of, same_data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tombola.engine.protocol import Executor, Reporter
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph
    from tombola.super_search import FoundSuper
    from tombola.ticket import Ticket
    from tombola.verifying.verification import Verification, VerificationPlan

    #: Makes the executor that runs a graph; without one every step runs in this process.
    Engine = Callable[[Graph, Store], Executor]


def default_store() -> Path:
    """``TOMBOLA_STORE``, or a folder in the user's cache."""
    given = os.environ.get("TOMBOLA_STORE")
    return Path(given).expanduser() if given else cache_folder() / "store"


def plan_find(
    model: str,
    *,
    task: str | None = None,
    method: str = "imp",
    sparsities: Sequence[float] | None = None,
    levels: Sequence[float] | None = None,
    seeds: Sequence[int] = (0,),
    schedule: str = "linear",
    step: float | None = None,
    rewind: Rewind = 0.0,
    scope: str = "global",
    ffn_rule: str = "floor",
    granularity: str = "example",
    select_share: float = 0.1,
    select_seed: int = 0,
    include_full: bool = False,
    keep_pooler: bool = False,
    data: DataOptions | None = None,
    recipe: Recipe | None = None,
    numerics: Numerics | None = None,
    revision: str | None = None,
) -> Search:
    """The plan of a search: nothing is trained yet. ``levels`` are for methods that choose among levels (super),
    ``sparsities`` for all others."""
    chosen = get_method(method)
    settings = SearchSettings(
        sparsities=chosen.grid(sparsities, levels),
        seeds=tuple(seeds),
        schedule=schedule,
        step=step if step is not None else 0.1,
        rewind=rewind,
        scope=scope,
        ffn_rule=ffn_rule,
        granularity=granularity,
        select_share=select_share,
        select_seed=select_seed,
        include_full=include_full,
    )
    chosen.refuse_ignored(settings)
    whole = make_problem(
        model,
        revision,
        task,
        data or DataOptions(),
        recipe or make_recipe(task, method=chosen.name),
        numerics or make_numerics(),
        keep_pooler=keep_pooler,
    )
    return plan_search(whole, settings, chosen)


def find(
    model: str,
    *,
    task: str | None = None,
    method: str = "imp",
    sparsity: float | None = None,
    seeds: int | Sequence[int] = 1,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    stop_hopeless: bool = False,
    budget: str | None = None,
    **settings: Any,
) -> Ticket:
    """Find one ticket: search with every seed, measure it against the full model, return the first seed's.

    ``settings`` are those of ``plan_find``: schedule, rewind, levels, data, recipe, numerics, revision.
    ``stop_hopeless`` and ``budget`` ("params<=0.5", "latency<=0.7") are for super tickets.
    """
    search = plan_find(
        model,
        task=task,
        method=method,
        sparsities=None if sparsity is None else (sparsity,),
        seeds=as_seeds(seeds),
        **settings,
    )
    if search.choices:
        found = run_super(
            search, store, reporter, with_model=False, stop_hopeless=stop_hopeless, budget=budget
        )
        return found.ticket
    if stop_hopeless or budget:
        raise UsageError(
            f"method '{search.method}' has no levels to stop at or to choose from",
            where="stop_hopeless" if stop_hopeless else "budget",
            todo="leave it out, or use method='super'",
        )
    return run_search(search, store, reporter)[0]


def run_super(
    search: Search,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    *,
    with_model: bool = True,
    stop_hopeless: bool = False,
    budget: str | None = None,
    engine: Engine | None = None,
) -> FoundSuper:
    """Run a planned search of super tickets: the first seed's ticket at its level, and the trained smaller model."""
    from tombola import super_search
    from tombola.engine.store import Store
    from tombola.finding.levels import read_budget

    opened = Store(store or default_store())
    return super_search.run_super(
        search,
        opened,
        lambda graph: _run(graph, opened, reporter, engine),
        with_model=with_model,
        stop_hopeless=stop_hopeless,
        budget=None if budget is None else read_budget(budget),
    )


def run_search(
    search: Search,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    *,
    with_model: bool = False,
    engine: Engine | None = None,
) -> tuple[Ticket, ...]:
    """Run a planned search; one ticket a sparsity, of the first seed, with the results of all seeds."""
    from tombola.engine.store import Store
    from tombola.finding.outcome import tickets_of

    opened = Store(store or default_store())
    graph = search.graph
    if with_model:
        first = search.settings.seeds[0]
        models = tuple(by_seed[first].out("weights.safetensors") for by_seed in search.retrained.values())
        graph = replace(graph, outputs=(*graph.outputs, *models))
    _run(graph, opened, reporter, engine)
    return tickets_of(search, opened.read_json, opened.path)


def verify(
    ticket: Ticket | Path | str,
    *,
    seeds: int | Sequence[int] = 5,
    against: Sequence[str] = ("full", "random"),
    criterion: str = "within_one_std",
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    **settings: Any,
) -> Verification:
    """Retrain a ticket over seeds beside the full model and the controls, and judge it."""
    from tombola.ticket import Ticket
    from tombola.verifying.criteria import parse

    chosen = VerifySettings(seeds=as_seeds(seeds), against=tuple(against), criterion=criterion, **settings)
    parse(criterion)
    if isinstance(ticket, Ticket):
        folder = Path(store or default_store()).expanduser() / "tickets" / ticket.identity
        if not folder.exists():
            ticket.save_pretrained(folder)
        loaded = ticket
    else:
        folder, loaded = ticket, Ticket.from_pretrained(ticket)
    return run_verification(plan_verify(loaded, folder, chosen), chosen, store, reporter)


def run_verification(
    plan: VerificationPlan,
    settings: VerifySettings,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    engine: Engine | None = None,
) -> Verification:
    """Run a planned verification and judge it."""
    from tombola.engine.store import Store

    opened = Store(store or default_store())
    _run(plan.graph, opened, reporter, engine)
    return _judged(plan, opened, settings.criterion)


def find_and_verify(
    search: Search,
    seeds: tuple[int, ...],
    criterion: str,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    *,
    also: Graph | None = None,
) -> tuple[tuple[Ticket, ...], Verification]:
    """Search and verification of its first ticket as one graph: what both need is trained once.

    ``also`` is work of a later search that reads the same trainings, done while their weights are there.
    """
    from tombola.engine.store import Store
    from tombola.finding.outcome import tickets_of
    from tombola.masks.schedule import zeros_wanted
    from tombola.verifying.claim import WeightClaim
    from tombola.verifying.verification import plan_verification

    opened = Store(store or default_store())
    sparsity, first = search.settings.sparsities[0], search.settings.seeds[0]
    prunable = search.problem.model.prunable
    claim = WeightClaim(zeros_wanted(prunable, sparsity), prunable)
    tickets = dict.fromkeys(seeds, search.candidates[sparsity][first])
    plan = plan_verification(search.problem, tickets, claim)
    graph = search.graph + plan.graph
    _run(graph if also is None else graph + also, opened, reporter)
    return tickets_of(search, opened.read_json, opened.path), _judged(plan, opened, criterion)


def load(folder: Path | str) -> Any:
    """The trained transformers model that a ticket's folder carries in ``model/``, or a folder that is such a model.

    ``folder`` may be a hub repository. Afterwards transformers' Auto classes and ``pipeline`` know such models too.
    """
    from tombola.ticket import load_model

    return load_model(folder)


def as_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """``5`` means seeds 0…4; a sequence means itself."""
    if isinstance(seeds, bool) or (isinstance(seeds, int) and seeds < 1):
        raise UsageError(
            f"{seeds} is no number of seeds", where="seeds", todo="give 1 or more, or a list of seeds"
        )
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(int(seed) for seed in seeds)


def _run(graph: Graph, store: Store, reporter: Reporter | None, engine: Engine | None = None) -> None:
    """Bring every wanted result about; the first step that cannot be done ends it."""
    from tombola.engine.inline import Inline
    from tombola.engine.scheduling import bring_about

    bring_about(graph, store, engine(graph, store) if engine else Inline(store), reporter)


def _judged(plan: VerificationPlan, store: Store, criterion: str) -> Verification:
    from tombola.verifying.criteria import parse
    from tombola.verifying.verification import judge

    return judge(
        plan,
        lambda step: store.read_json(step.out("metrics.json")),
        fixed_mask=True,
        criterion=parse(criterion),
    )


def estimate(graph: Graph, store: Path | str | None) -> dict[str, Any]:
    """Steps, disk and time that a graph still needs; the time by this store's own runs, or by a short probe."""
    from tombola.engine.estimate import estimate as of
    from tombola.engine.store import Store

    return of(graph, Store(store or default_store()))


def trained_model(search: Search, sparsity: float, store: Path | str | None) -> Any:
    """The retrained ticket of the first seed as a transformers model, its pruned weights zero."""
    from tombola.engine.store import Store
    from tombola.plan.train_step import trained_model as of

    step = search.retrained[sparsity][search.settings.seeds[0]]
    return of(step, Store(store or default_store()).path(step.out("weights.safetensors")))


__all__ = [
    "VerifySettings",
    "estimate",
    "find",
    "find_and_verify",
    "load",
    "make_numerics",
    "make_recipe",
    "plan_find",
    "plan_verify",
    "precision_of",
    "run_search",
    "run_super",
    "run_verification",
    "same_data",
    "trained_model",
    "verify",
]
