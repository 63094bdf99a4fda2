"""History: the loss and gradient norm of every step, left on the device so that no step waits for a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tombola.errors import TrainingError
from tombola.masks.weight_mask import WeightMask
from tombola.training.state import TrainingState
from tombola.training.stopping import EpochScore

#: How many steps may pass before a loss that is not a number is noticed.
CHECK_EVERY = 50


@dataclass(frozen=True)
class LogRow:
    """Means over the steps since the row before; ``step`` counts finished steps, the rate is its last."""

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float


@dataclass(frozen=True)
class TrainingResult:
    """What a training leaves beside the trained model. All but ``seconds`` is a function of the arguments.

    ``steps`` are those really made; where early stopping was on, the model is that of ``best_epoch``.
    """

    steps: int
    first_step: int
    examples: int
    log: tuple[LogRow, ...]
    mask: WeightMask | None
    snapshots: dict[int, TrainingState]
    seconds: float
    epochs: tuple[EpochScore, ...] = ()
    best_epoch: int | None = None

    @property
    def loss_last(self) -> float | None:
        """The mean loss of the last logged steps."""
        return self.log[-1].loss if self.log else None


class History:
    """Per-step losses and norms from ``first_step`` on; ``saved`` are those up to a checkpoint."""

    def __init__(
        self, total: int, first_step: int, device: torch.device, saved: Mapping[str, Tensor]
    ) -> None:
        self.first_step = first_step
        self._series = {name: torch.zeros(total, device=device) for name in ("losses", "norms")}
        self._checked = first_step
        for name, values in saved.items():
            self._series[name][: len(values)] = values.to(device)

    def add(self, step: int, loss: Tensor, norm: Tensor) -> None:
        self._series["losses"][step] = loss
        self._series["norms"][step] = norm
        if step + 1 - self._checked >= CHECK_EVERY:
            self.check(step + 1)

    def check(self, step: int) -> None:
        """Refuse to go on, or to save, when a loss or gradient norm before ``step`` is not finite."""
        losses, norms = (self._series[name][self._checked : step] for name in ("losses", "norms"))
        bad = ~(losses.isfinite() & norms.isfinite())
        if bool(bad.any()):
            first = int(bad.nonzero()[0])
            raise TrainingError(
                f"the training has diverged: loss {losses[first].item():g}, "
                f"gradient norm {norms[first].item():g}",
                where=f"step {self._checked + first}",
                todo="try a smaller learning rate or a warm-up, or precision fp32",
            )
        self._checked = step

    def tensors(self, step: int) -> dict[str, Tensor]:
        """What a checkpoint after ``step`` steps holds."""
        return {name: series[:step] for name, series in self._series.items()}

    def rows(self, steps: int, every: int, rate: Callable[[int], float]) -> tuple[LogRow, ...]:
        """One row for every ``every`` of ``steps`` and one at the end; ``rate`` gives a step's learning rate."""
        losses, norms = (self._series[name].tolist() for name in ("losses", "norms"))
        rows = []
        begin = self.first_step
        while begin < steps:
            end = min((begin // every + 1) * every, steps)
            count = end - begin
            rows.append(
                LogRow(end, sum(losses[begin:end]) / count, rate(end - 1), sum(norms[begin:end]) / count)
            )
            begin = end
        return tuple(rows)
