"""Recipe: what one training does. Numerics: everything that changes its bits but not its meaning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, Self

from tombola.errors import RecipeError, nearest

#: Marks a setting that came after runs had been stored, by identities that do not know it.
LATER = "left out of JSON while at its default"


def later(default: Any) -> Any:
    """A setting added later. At its default it is left out of JSON, so that identities made before stay."""
    return field(default=default, metadata={LATER: True})


@dataclass(frozen=True)
class _Settings:
    """JSON in and out for the two dataclasses below; unknown keys are refused with the nearest known one."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, as identities and tickets hold it."""
        told = {each.name: getattr(self, each.name) for each in fields(self) if not self._left_out(each)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}

    def _left_out(self, setting: Field[Any]) -> bool:
        return LATER in setting.metadata and getattr(self, setting.name) == setting.default

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        known = tuple(setting.name for setting in fields(cls))
        for key in value:
            if key not in known:
                raise RecipeError(
                    f"unknown setting '{key}'", where=cls.__name__.lower(), todo=nearest(str(key), known)
                )
        return cls(**{key: tuple(item) if isinstance(item, list) else item for key, item in value.items()})


#: What only says how an early-stopped training stops.
STOPPING = ("patience", "stop_share", "stop_seed")


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
    #: score a share of the development set after every epoch, stop when it gets no better, keep the best (SPEC 3.4)
    early_stopping: bool = later(False)
    #: so many epochs without improvement end an early-stopped training
    patience: int = later(1)
    #: the seeded share of the development set that it is scored on; the rest is untouched by the choice
    stop_share: float = later(0.1)
    stop_seed: int = later(0)
    #: dropout of the task head; None: the model's own
    head_dropout: float | None = later(None)

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
        self._check_stopping()
        if self.head_dropout is not None:
            _between("head_dropout", self.head_dropout, 0.0, 1.0, above=False)
        if self.optimizer == "adamw" and not self.decoupled_decay:
            raise RecipeError(
                "AdamW's weight decay is decoupled by definition",
                where="decoupled_decay",
                todo="leave it true, or choose optimizer: adamax",
            )

    def _check_stopping(self) -> None:
        if not isinstance(self.early_stopping, bool):
            raise RecipeError(
                f"early_stopping is {self.early_stopping!r}",
                where="early_stopping",
                todo="give true or false",
            )
        _whole("patience", self.patience)
        _between("stop_share", self.stop_share, 0.0, 1.0, above=False)
        if self.stop_share == 0:
            raise RecipeError("a share of nothing scores nothing", where="stop_share", todo="give 0.1, say")
        if not isinstance(self.stop_seed, int) or isinstance(self.stop_seed, bool):
            raise RecipeError(
                f"stop_seed is {self.stop_seed!r}", where="stop_seed", todo="give a whole number"
            )
        changed = [name for name in STOPPING if getattr(self, name) != getattr(type(self), name)]
        if changed and not self.early_stopping:
            raise RecipeError(
                f"{changed[0]} is a setting of early stopping, which this recipe leaves out",
                where=changed[0],
                todo="leave it out, or set early_stopping: true",
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

    def without_stopping(self) -> Recipe:
        """The same recipe to its last epoch, whatever the development set says."""
        return replace(self, early_stopping=False, **{name: getattr(Recipe, name) for name in STOPPING})


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
