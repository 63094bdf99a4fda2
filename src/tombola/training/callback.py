"""TicketCallback: train a ticket with transformers' own Trainer, in a script of one's own.

The Trainer clips gradients *before* its ``on_pre_optimizer_step``, so a callback that masks gradients there
leaves pruned weights in the norm (SPEC 5, trap 8). Hooks on the parameters mask every gradient as it is made,
before it is accumulated, averaged over processes or clipped; after every optimizer step the pruned weights
are zeroed again, because decay and momentum act without a gradient (trap 7).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers.trainer_callback import TrainerCallback

from tombola.errors import MaskMismatch, UsageError
from tombola.masks.structure_mask import StructureMask
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import backbone_parameters, unwrapped
from tombola.models.families import FAMILIES


class TicketCallback(TrainerCallback):
    """Keeps a ticket's pruned weights at exactly zero while transformers' Trainer trains the others.

    ``ticket`` is a Ticket with a weight mask, or a WeightMask. No hook stays in the model: they are removed
    when the training ends, by ``detach()``, when the callback is garbage, and, used as a context manager
    (``with TicketCallback(ticket) as callback:``), also when an exception breaks the training off.
    """

    def __init__(self, ticket: Any) -> None:
        self.mask = _weight_mask(ticket)
        about = getattr(ticket, "model", None)
        self._family = about.get("family") if isinstance(about, Mapping) else None
        #: Names of the mask that the model may lack: the pooler, which some classes do not have (trap 13).
        self.skipped: tuple[str, ...] = ()
        self._pruned: list[tuple[nn.Parameter, Tensor]] = []
        self._handles: dict[int, RemovableHandle] = {}
        self._finalizer = weakref.finalize(self, _remove, self._handles)

    def attach(self, model: nn.Module, optimizer: Any = None) -> None:
        """Check the mask against the model, zero what it prunes (optimizer state too), hook the gradients."""
        self.detach()
        parameters, self.skipped = self._checked(model)
        for name, parameter in parameters.items():
            self._pruned.append((parameter, ~self.mask[name].to(parameter.device)))
        self._zero()
        self._hook()
        for parameter, dropped in self._pruned:
            for remembered in _state_of(optimizer, parameter).values():
                if isinstance(remembered, Tensor) and remembered.shape == parameter.shape:
                    remembered.masked_fill_(dropped, 0.0)

    def detach(self) -> None:
        """Remove every hook; the weights stay as they are."""
        _remove(self._handles)
        self._pruned = []

    def __enter__(self) -> TicketCallback:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()

    # --- the Trainer's events ---------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _refuse_sharding(args, kwargs["model"])
        self.attach(kwargs["model"], kwargs.get("optimizer"))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._hook()  # layers may be unfrozen in the middle of a training

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._zero()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._zero()  # load_best_model_at_end may have put weights back
        self.detach()

    # --- details ----------------------------------------------------------

    def _checked(self, model: nn.Module) -> tuple[dict[str, nn.Parameter], tuple[str, ...]]:
        """The model's parameters that the mask is about, by name, and the names that it lacks knowingly."""
        parameters = backbone_parameters(model)
        model_type = getattr(getattr(unwrapped(model), "config", None), "model_type", None)
        if self._family is not None and model_type != self._family:
            raise MaskMismatch(
                f"the ticket was drawn from a {self._family} model, this model is of type {model_type}",
                where=type(unwrapped(model)).__name__,
                todo="start from ticket.model(...), or from the model that the ticket names",
            )
        family = FAMILIES.get(model_type or "")
        pooler = f"{family.pooler}.weight" if family is not None and family.pooler else None
        skipped = tuple(name for name in self.mask.names if name == pooler and name not in parameters)
        names = [name for name in self.mask.names if name not in skipped]
        if not names:
            raise MaskMismatch(
                "the mask is about nothing but a pooler that this model lacks", where=str(pooler)
            )
        self.mask.restrict(names).check_against(
            {name: tuple(weight.shape) for name, weight in parameters.items()}
        )
        return {name: parameters[name] for name in names}, skipped

    def _hook(self) -> None:
        for parameter, dropped in self._pruned:
            if parameter.requires_grad and id(parameter) not in self._handles:
                self._handles[id(parameter)] = parameter.register_hook(_without(dropped))

    @torch.no_grad()
    def _zero(self) -> None:
        for parameter, dropped in self._pruned:
            parameter.masked_fill_(dropped, 0.0)


def _without(dropped: Tensor) -> Any:
    """A gradient hook. It holds the mask alone, so that no hook keeps the callback alive."""

    def masked(gradient: Tensor) -> Tensor:
        return gradient.masked_fill(dropped, 0.0)

    return masked


def _remove(handles: dict[int, RemovableHandle]) -> None:
    while handles:
        handles.popitem()[1].remove()


def _state_of(optimizer: Any, parameter: nn.Parameter) -> Mapping[str, Any]:
    """What the optimizer remembers of a parameter; asking must not create an empty entry in its state."""
    state = getattr(optimizer, "state", None)
    return state.get(parameter, {}) if isinstance(state, Mapping) else {}


def _refuse_sharding(args: Any, model: nn.Module) -> None:
    asked = [
        f"TrainingArguments({option}=...)" for option in ("fsdp", "deepspeed") if getattr(args, option, None)
    ]
    sharded = [
        f"parameter {name}" for name, weight in model.named_parameters() if hasattr(weight, "device_mesh")
    ]
    if asked or sharded:
        raise UsageError(
            "a ticket cannot be trained with sharded parameters: no process holds a whole matrix to mask",
            where=(asked + sharded)[0],
            todo="train on one device, or with plain data parallelism (torchrun)",
        )


def _weight_mask(ticket: Any) -> WeightMask:
    mask = ticket if isinstance(ticket, (WeightMask, StructureMask)) else getattr(ticket, "mask", None)
    if isinstance(mask, WeightMask):
        return mask
    if mask is not None:
        raise UsageError(
            "a structured ticket needs no callback: its model is physically smaller",
            where=f"TicketCallback({type(ticket).__name__} with a {type(mask).__name__})",
            todo="train what ticket.model(num_labels=...) gives, itself and without a callback; "
            "its trained model is what tombola.load(folder) gives",
        )
    raise UsageError(
        f"a {type(ticket).__name__} is no ticket",
        where="TicketCallback(ticket)",
        todo="give a Ticket (tombola.Ticket.from_pretrained(folder)) or a WeightMask",
    )
