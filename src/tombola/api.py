"""The verbs as Python functions: ``find``, ``verify``, ``load``. Each plans a graph, runs it through the store, and
reads the result."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.errors import UsageError
from tombola.finding.methods import get_method
from tombola.finding.search import Search, plan_search
from tombola.finding.settings import Rewind, SearchSettings
from tombola.plan.materials import cache_folder
from tombola.plan.materials import problem as make_problem
from tombola.plan.problem import Problem
from tombola.plan.trainings import Candidate, Start, ticket_import
from tombola.tasks.task import DataOptions, get_task
from tombola.training.recipe import Numerics, Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tombola.engine.inline import Reporter
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph
    from tombola.ticket import Ticket
    from tombola.verifying.verification import Verification, VerificationPlan


def default_store() -> Path:
    """``TOMBOLA_STORE``, or a folder in the user's cache."""
    given = os.environ.get("TOMBOLA_STORE")
    return Path(given).expanduser() if given else cache_folder() / "store"


def make_numerics(
    precision: str = "fp32", device: str = "auto", threads: int | None = None, **more: Any
) -> Numerics:
    """The numerics of this machine: ``auto`` takes a GPU if there is one, ``threads`` the cores, eight at most."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here", where="--device", todo="leave it out, or give cpu")
    if threads is None:
        threads = 1 if device == "cuda" else min(_cores(), 8)
    return Numerics.from_json({"precision": precision, "device": device, "threads": threads, **more})


def make_recipe(task: str | None, **changes: Any) -> Recipe:
    """The task's own recipe (SPEC 2.4) with what the caller changed; None changes nothing."""
    if task is None:
        recipe = Recipe()
    else:
        defaults = get_task(task)
        recipe = Recipe(
            learning_rate=defaults.learning_rate,
            epochs=defaults.epochs,
            batch_size=defaults.batch_size,
            max_length=defaults.max_length,
        )
    return replace(recipe, **{key: value for key, value in changes.items() if value is not None})


def plan_find(
    model: str,
    *,
    task: str | None = None,
    method: str = "imp",
    sparsities: Sequence[float] = (0.5,),
    seeds: Sequence[int] = (0,),
    schedule: str = "linear",
    step: float | None = None,
    rewind: Rewind = 0.0,
    scope: str = "global",
    keep_pooler: bool = False,
    data: DataOptions | None = None,
    recipe: Recipe | None = None,
    numerics: Numerics | None = None,
    revision: str | None = None,
) -> Search:
    """The plan of a search: nothing is trained yet."""
    chosen = get_method(method)
    settings = SearchSettings(
        sparsities=tuple(sparsities),
        seeds=tuple(seeds),
        schedule=schedule,
        step=step if step is not None else 0.1,
        rewind=rewind,
        scope=scope,
    )
    if settings.rewind != 0.0 and chosen.name != "imp":
        raise UsageError(
            f"method '{chosen.name}' has no rewinding point: its tickets start from θ0",
            where="rewind",
            todo="leave it out, or use --method imp",
        )
    whole = make_problem(
        model,
        revision,
        task,
        data or DataOptions(),
        recipe or make_recipe(task),
        numerics or make_numerics(),
        keep_pooler=keep_pooler,
    )
    return plan_search(whole, settings, chosen)


def find(
    model: str,
    *,
    task: str | None = None,
    method: str = "imp",
    sparsity: float = 0.5,
    seeds: int | Sequence[int] = 1,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    **settings: Any,
) -> Ticket:
    """Find one ticket: search with every seed, measure it against the full model, return the first seed's.

    ``settings`` are those of ``plan_find``: schedule, rewind, data, recipe, numerics, revision.
    """
    search = plan_find(
        model, task=task, method=method, sparsities=(sparsity,), seeds=as_seeds(seeds), **settings
    )
    return run_search(search, store, reporter)[0]


def run_search(
    search: Search,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
    *,
    with_model: bool = False,
) -> tuple[Ticket, ...]:
    """Run a planned search; one ticket a sparsity, of the first seed, with the results of all seeds."""
    from tombola.engine.inline import run
    from tombola.engine.store import Store
    from tombola.finding.outcome import tickets_of

    opened = Store(store or default_store())
    graph = search.graph
    if with_model:
        first = search.settings.seeds[0]
        models = tuple(by_seed[first].out("weights.safetensors") for by_seed in search.retrained.values())
        graph = replace(graph, outputs=(*graph.outputs, *models))
    run(graph, opened, reporter=reporter)
    return tickets_of(search, opened.read_json, opened.path)


@dataclass(frozen=True)
class VerifySettings:
    """How a ticket is verified; what is None is taken from the ticket itself."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    against: tuple[str, ...] = ("full", "random")
    criterion: str = "within_one_std"
    task: str | None = None
    data: DataOptions = field(default_factory=DataOptions)
    recipe_changes: tuple[tuple[str, Any], ...] = ()
    numerics: Numerics | None = None
    model: str | None = None
    revision: str | None = None


def plan_verify(ticket: Ticket, folder: Path | str, settings: VerifySettings) -> VerificationPlan:
    """The plan of a verification of a ticket in a folder: one fixed mask over seeds."""
    from tombola.verifying.criteria import parse
    from tombola.verifying.verification import plan_verification

    if len(settings.seeds) < 2 and parse(settings.criterion).std_of is not None:
        raise UsageError(
            f"one seed has no standard deviation: {settings.criterion} cannot be judged",
            where="--seeds, --criterion",
            todo="give more seeds (--seeds 5), or another criterion (--criterion within_points:2)",
        )
    whole = _problem_of(ticket, settings)
    imported = ticket_import(whole, ticket=ticket.identity, folder=str(folder))
    start = Start()
    if ticket.start_state is not None:
        start = Start(
            "weights",
            ref=imported.out("start.safetensors"),
            head="kept" if any(name.startswith("head::") for name in ticket.start_state) else "fresh",
            first_step=int(ticket.start.get("step", 0)),
        )
    candidate = Candidate(imported.out("mask.safetensors"), start)
    tickets = dict.fromkeys(settings.seeds, candidate)
    return plan_verification(whole, tickets, ticket.mask.zeros, settings.against)


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
    return run_verification(plan_verify(loaded, folder, chosen), loaded, chosen, store, reporter)


def run_verification(
    plan: VerificationPlan,
    ticket: Ticket,
    settings: VerifySettings,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
) -> Verification:
    """Run a planned verification and judge it."""
    from tombola.engine.inline import run
    from tombola.engine.store import Store

    opened = Store(store or default_store())
    run(plan.graph, opened, reporter=reporter)
    return _judged(plan, opened, ticket.mask.zeros, settings.criterion)


def find_and_verify(
    search: Search,
    seeds: tuple[int, ...],
    criterion: str,
    store: Path | str | None = None,
    reporter: Reporter | None = None,
) -> tuple[tuple[Ticket, ...], Verification]:
    """Search and verification of its first ticket as one graph: what both need is trained once."""
    from tombola.engine.inline import run
    from tombola.engine.store import Store
    from tombola.finding.outcome import tickets_of
    from tombola.masks.selection import zeros_wanted
    from tombola.verifying.verification import plan_verification

    opened = Store(store or default_store())
    sparsity, first = search.settings.sparsities[0], search.settings.seeds[0]
    zeros = zeros_wanted(search.problem.model.prunable, sparsity)
    tickets = dict.fromkeys(seeds, search.candidates[sparsity][first])
    plan = plan_verification(search.problem, tickets, zeros)
    run(search.graph + plan.graph, opened, reporter=reporter)
    return tickets_of(search, opened.read_json, opened.path), _judged(plan, opened, zeros, criterion)


def load(folder: Path | str) -> Any:
    """The trained transformers model that a ticket's folder carries in ``model/``."""
    from tombola.ticket import load_model

    return load_model(folder)


def as_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """``5`` means seeds 0…4; a sequence means itself."""
    if isinstance(seeds, bool) or (isinstance(seeds, int) and seeds < 1):
        raise UsageError(
            f"{seeds} is no number of seeds", where="seeds", todo="give 1 or more, or a list of seeds"
        )
    return tuple(range(seeds)) if isinstance(seeds, int) else tuple(int(seed) for seed in seeds)


def _judged(plan: VerificationPlan, store: Store, zeros: int, criterion: str) -> Verification:
    from tombola.verifying.criteria import parse
    from tombola.verifying.verification import judge

    return judge(
        plan,
        lambda step: store.read_json(step.out("metrics.json")),
        zeros=zeros,
        fixed_mask=True,
        criterion=parse(criterion),
    )


def _problem_of(ticket: Ticket, settings: VerifySettings) -> Problem:
    """The ticket's own model, task and recipe, with what the caller changed."""
    from tombola.errors import MaskMismatch

    task = settings.task
    if task is None and settings.data.data is None:
        task = (ticket.task or {}).get("name")
        if task is None or (ticket.task or {}).get("own_files"):
            raise UsageError(
                "the ticket was found on somebody's own files",
                where="verify",
                todo="name the data to verify it on: --data FILE --text … --label …, or --task NAME",
            )
    model = settings.model or str(ticket.model["source"])
    if settings.model is None and ticket.model.get("kind") == "folder" and not Path(model).is_dir():
        raise UsageError(
            f"the ticket's base model is a folder called '{model}', which is not here",
            where="verify",
            todo="say where it is with --model FOLDER",
        )
    recipe = replace(Recipe.from_json(ticket.settings["recipe"]), **dict(settings.recipe_changes))
    numerics = settings.numerics or make_numerics(precision_of(ticket))
    data = settings.data
    if settings.data.data is None and settings.task is None:
        # The ticket's own subset, unless the caller names another.
        sizes = {
            key: (ticket.task or {}).get(key)
            for key in ("max_train", "max_eval")
            if getattr(data, key) is None
        }
        data = replace(data, **sizes)
    whole = make_problem(
        model,
        settings.revision or (None if settings.model else ticket.model.get("revision")),
        task,
        data,
        recipe,
        numerics,
        keep_pooler=not set(ticket.model.get("optional", ())) & set(ticket.mask.names),
    )
    if whole.model.fingerprint != ticket.model["fingerprint"]:
        raise MaskMismatch(
            f"the ticket was drawn from another model (θ0 {ticket.model['fingerprint'][:12]}, here "
            f"{whole.model.fingerprint[:12]})",
            where=model,
            todo="give the base model of the ticket with --model",
        )
    ticket.mask.check_against({name: tuple(shape) for name, shape in whole.model.shapes.items()})
    return whole


def precision_of(ticket: Ticket) -> str:
    """The precision the ticket was found in."""
    return str(ticket.settings.get("numerics", {}).get("precision", "fp32"))


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


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


__all__ = ["find", "load", "verify"]
