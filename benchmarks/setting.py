"""What one run of the benchmarks measures, as a value that travels to worker processes as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import torch

from tombola.masks.schedule import zeros_wanted
from tombola.masks.selection import lowest_pruned
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of, backbone_parameters
from tombola.models.build import HeadSpec, build_model
from tombola.models.resolve import resolve
from tombola.scores.magnitude import magnitude
from tombola.training.recipe import Numerics, Recipe


@dataclass(frozen=True)
class Setting:
    model: str = "minilm-l6"
    #: the folder with GLUE; None: token lengths drawn from the known distributions
    data_dir: str | None = None
    tasks: tuple[str, ...] = ("cola", "sst-2", "mrpc", "rte")
    precision: str = "fp32"
    device: str = "cpu"
    threads: int = 1
    batch_size: int = 32
    max_length: int = 128
    sparsity: float = 0.5
    #: how often every stratum of batch widths is measured, each time with another batch
    passes: int = 3
    strata: int = 4

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        values = json.loads(text)
        return cls(**{**values, "tasks": tuple(values["tasks"])})

    def with_(self, **changes: Any) -> Setting:
        return replace(self, **changes)

    @property
    def numerics(self) -> Numerics:
        return Numerics(precision=self.precision, device=self.device, threads=self.threads)  # type: ignore[arg-type]

    @property
    def recipe(self) -> Recipe:
        return Recipe(epochs=1, batch_size=self.batch_size, max_length=self.max_length)


def fresh_model(setting: Setting) -> Any:
    """The pre-trained model with a head of two classes, as every way of training it starts."""
    return build_model(resolve(setting.model), HeadSpec("classification", 2), head_seed=0)


def magnitude_mask(model: Any, sparsity: float) -> WeightMask:
    """The one-shot magnitude mask of the model's own weights."""
    anatomy = anatomy_of(model)
    scores = magnitude(backbone_parameters(model), anatomy.prunable_names)
    return lowest_pruned(scores, zeros_wanted(anatomy.size, sparsity))


def wait_for(device: str) -> None:
    """Until the device has done what it was told, so that a clock tells the truth."""
    if device == "cuda":
        torch.cuda.synchronize()
