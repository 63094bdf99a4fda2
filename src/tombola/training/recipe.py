"""Recipe: what one training does. Numerics: everything that changes its bits but not its meaning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

from tombola.errors import RecipeError, nearest


@dataclass(frozen=True)
class _Settings:
    """JSON in and out for the two dataclasses below; unknown keys are refused with the nearest known one."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, as identities and tickets hold it."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        known = tuple(field.name for field in fields(cls))
        for key in value:
            if key not in known:
                raise RecipeError(
                    f"unknown setting '{key}'", where=cls.__name__.lower(), todo=nearest(str(key), known)
                )
        return cls(**{key: tuple(item) if isinstance(item, list) else item for key, item in value.items()})


@dataclass(frozen=True)
class Recipe(_Settings):
    """How a model is trained on a task (defaults: the BERT-ticket paper's, SPEC 2.4)."""

    learning_rate: float = 2e-5
    epochs: int = 3
    batch_size: int = 32
    optimizer: Literal["adamw", "adamax"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    #: decoupled: w ← w − rate·decay·w; otherwise decay joins the gradient, as in torch's Adamax
    decoupled_decay: bool = True
    decay_exempt: Literal["none", "bias_and_norm"] = "none"
    bias_correction: bool = True
    warmup_share: float = 0.0
    schedule: Literal["linear"] = "linear"
    #: the largest gradient norm; 0 turns clipping off
    clip: float = 1.0
    max_length: int = 128
    #: buckets: similar lengths together inside a shuffled window; random: the papers' way
    order: Literal["buckets", "random"] = "buckets"
    padding: Literal["longest", "max_length"] = "longest"

    def __post_init__(self) -> None:
        _choice("optimizer", self.optimizer, ("adamw", "adamax"))
        _choice("decay_exempt", self.decay_exempt, ("none", "bias_and_norm"))
        _choice("schedule", self.schedule, ("linear",))
        _choice("order", self.order, ("buckets", "random"))
        _choice("padding", self.padding, ("longest", "max_length"))
        for name in ("epochs", "batch_size", "max_length"):
            _whole(name, getattr(self, name))
        if isinstance(self.betas, list):
            object.__setattr__(self, "betas", tuple(self.betas))
        if len(self.betas) != 2:
            raise RecipeError("betas are two numbers", where="betas", todo="for example 0.9 and 0.999")
        _between("learning_rate", self.learning_rate, 0.0, 10.0)
        # Without it, an entry without gradient would be moved by 0/0.
        _between("epsilon", self.epsilon, 1e-30, 1.0)
        _between("weight_decay", self.weight_decay, 0.0, 1.0)
        _between("warmup_share", self.warmup_share, 0.0, 1.0)
        _between("clip", self.clip, 0.0, math.inf)
        for beta in self.betas:
            _between("betas", beta, 0.0, 1.0, above=False)
        if self.optimizer == "adamw" and not self.decoupled_decay:
            raise RecipeError(
                "AdamW's weight decay is decoupled by definition",
                where="decoupled_decay",
                todo="leave it true, or choose optimizer: adamax",
            )

    def steps_per_epoch(self, examples: int) -> int:
        """The last, shorter batch of an epoch counts."""
        return math.ceil(examples / self.batch_size)

    def total_steps(self, examples: int) -> int:
        """t: the optimizer steps of a whole training on ``examples`` examples."""
        return self.epochs * self.steps_per_epoch(examples)

    def warmup_steps(self, examples: int) -> int:
        return int(self.warmup_share * self.total_steps(examples) + 0.5)

    def with_(self, **changes: Any) -> Recipe:
        """The same recipe with some settings changed and checked."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Numerics(_Settings):
    """What changes the bits of a result: equal numerics (and environment) promise equal bytes (DESIGN 5).

    ``micro_batch`` is the most examples one forward pass takes; None: a process's whole share of a batch.
    """

    precision: Literal["fp32", "bf16"] = "fp32"
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = 1
    micro_batch: int | None = None
    world_size: int = 1
    attention: Literal["sdpa", "eager"] = "sdpa"
    optimizer_kernel: Literal["fused", "foreach"] = "fused"

    def __post_init__(self) -> None:
        _choice("precision", self.precision, ("fp32", "bf16"))
        _choice("device", self.device, ("cpu", "cuda"))
        _choice("attention", self.attention, ("sdpa", "eager"))
        _choice("optimizer_kernel", self.optimizer_kernel, ("fused", "foreach"))
        _whole("threads", self.threads)
        _whole("world_size", self.world_size)
        if self.micro_batch is not None:
            _whole("micro_batch", self.micro_batch)


def _choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise RecipeError(f"{name} cannot be {value!r}", where=name, todo=nearest(str(value), known))


def _whole(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise RecipeError(f"{name} is {value!r}", where=name, todo="give a whole number of at least 1")


def _between(name: str, value: Any, low: float, high: float, *, above: bool = True) -> None:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fine or value < low or (value > high if above else value >= high):
        bound = "" if math.isinf(high) else f" and at most {high:g}" if above else f" and below {high:g}"
        raise RecipeError(
            f"{name} is {value!r}", where=name, todo=f"give a number of at least {low:g}{bound}"
        )
