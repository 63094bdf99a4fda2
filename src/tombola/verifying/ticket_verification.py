"""Verifying a ticket from a folder: its own model, task and recipe again, one fixed mask over seeds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.errors import CorruptArtifact, MaskMismatch, UsageError
from tombola.plan.defaults import make_numerics, make_recipe
from tombola.plan.materials import problem as make_problem
from tombola.plan.problem import Problem
from tombola.plan.trainings import Candidate, Start, ticket_import
from tombola.tasks.task import DataOptions, get_task
from tombola.training.recipe import Numerics, Recipe
from tombola.verifying.claim import Claim, StructureClaim, WeightClaim
from tombola.verifying.criteria import parse
from tombola.verifying.verification import VerificationPlan, plan_verification

if TYPE_CHECKING:
    from tombola.ticket import Ticket


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
    #: of the ticket, where it comes from the hub
    revision: str | None = None


def plan_verify(ticket: Ticket, folder: Path | str, settings: VerifySettings) -> VerificationPlan:
    """The plan of a verification of a ticket in a folder: one fixed mask over seeds."""
    if len(settings.seeds) < 2 and parse(settings.criterion).std_of is not None:
        raise UsageError(
            f"one seed has no standard deviation: {settings.criterion} cannot be judged",
            where="--seeds, --criterion",
            todo="give more seeds (--seeds 5), or another criterion (--criterion within_points:2)",
        )
    whole = problem_of(ticket, settings)
    imported = ticket_import(
        whole,
        ticket=ticket.identity,
        folder=str(folder),
        revision=settings.revision,
        structured=ticket.is_structured,
    )
    start = Start()
    if ticket.start_state is not None:
        start = Start(
            "weights",
            ref=imported.out("start.safetensors"),
            head="kept" if any(name.startswith("head::") for name in ticket.start_state) else "fresh",
            first_step=int(ticket.start.get("step", 0)),
        )
    claim = claim_of(ticket, whole)
    tickets = dict.fromkeys(settings.seeds, Candidate(imported.out(claim.output), start))
    return plan_verification(whole, tickets, claim, settings.against)


def claim_of(ticket: Ticket, problem: Problem) -> Claim:
    """What a ticket says of its own size, to be counted in the weights that are trained."""
    if ticket.is_structured:
        return StructureClaim.of(ticket.structure, ticket.sizes)
    return WeightClaim(ticket.weight_mask.zeros, problem.model.prunable)


def problem_of(ticket: Ticket, settings: VerifySettings) -> Problem:
    """The ticket's own model, task and recipe, with what the caller changed."""
    _check_told(ticket)
    own_task = (ticket.task or {}).get("name")
    task = settings.task
    if task is None and settings.data.data is None:
        task = own_task
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
    # A ticket that moves to another task is trained with that task's own recipe (SPEC 1).
    moved = settings.data.data is None and get_task(str(task)).name != own_task
    recipe = make_recipe(task) if moved else Recipe.from_json(ticket.settings["recipe"])
    recipe = replace(recipe, **dict(settings.recipe_changes))
    numerics = settings.numerics or make_numerics(precision_of(ticket))
    data = settings.data
    if settings.data.data is None and not moved:
        # The ticket's own subset, unless the caller names another.
        sizes = {
            key: (ticket.task or {}).get(key)
            for key in ("max_train", "max_eval")
            if getattr(data, key) is None
        }
        data = replace(data, **sizes)
    whole = make_problem(
        model,
        None if settings.model else ticket.model.get("revision"),
        task,
        data,
        recipe,
        numerics,
        keep_pooler=not ticket.is_structured and not _prunes_optional(ticket),
    )
    if whole.model.fingerprint != ticket.model["fingerprint"]:
        raise MaskMismatch(
            f"the ticket was drawn from another model (θ0 {ticket.model['fingerprint'][:12]}, here "
            f"{whole.model.fingerprint[:12]})",
            where=model,
            todo="give the base model of the ticket with --model",
        )
    if whole.model.config != ticket.model.get("config", whole.model.config):
        raise MaskMismatch(
            "the base model has the ticket's weights, but another configuration (heads, activation, dropout, …)",
            where=f"config.json of {model}",
            todo="give the base model of the ticket with --model",
        )
    _check_mask(ticket, whole)
    return whole


def _prunes_optional(ticket: Ticket) -> bool:
    return bool(set(ticket.model.get("optional", ())) & set(ticket.weight_mask.names))


def _check_mask(ticket: Ticket, problem: Problem) -> None:
    """The mask is about this model, and a structured ticket's shares follow from this model's sizes."""
    if not ticket.is_structured:
        shapes = problem.model.shapes
        ticket.weight_mask.check_against({name: tuple(shape) for name, shape in shapes.items()})
    elif ticket.sizes != problem.model.sizes:
        raise MaskMismatch(
            "the ticket says other sizes of its full model than this model has, so its remaining weight is not true",
            where=f"model.sizes of the ticket, {problem.model.name}",
            todo="give the base model of the ticket with --model, or ask whoever made the ticket",
        )


def precision_of(ticket: Ticket) -> str:
    """The precision the ticket was found in."""
    numerics = ticket.settings.get("numerics")
    return str(numerics.get("precision", "fp32")) if isinstance(numerics, dict) else "fp32"


def same_data(ticket: Ticket, problem: Problem) -> bool | None:
    """Whether the ticket was found on the very records it is verified on; None where it does not say."""
    found_on = (ticket.task or {}).get("fingerprint")
    return None if found_on is None else found_on == problem.task.fingerprint


def _check_told(ticket: Ticket) -> None:
    """What a verification needs to be told, of a file that anybody may have written."""
    wanted = {
        "model.source": (ticket.model.get("source"), str),
        "model.fingerprint": (ticket.model.get("fingerprint"), str),
        "settings.recipe": (ticket.settings.get("recipe"), dict),
        "start.step": (ticket.start.get("step", 0), int),
    }
    for name, (value, kind) in wanted.items():
        if not isinstance(value, kind):
            raise CorruptArtifact(
                f"the ticket does not say its {name}, so it cannot be verified",
                where="ticket.json",
                todo="ask whoever made it, or find it again",
            )
