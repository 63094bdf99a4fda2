"""Sparsity: the one seam through which everything sparse enters the training loop (DESIGN 3).

What the loop does, in this order, and what each call may rely on:

    groups = sparsity.attach(model)          once; the model is on its device
    optimizer = build_optimizer(model, groups); its state is loaded when a training goes on
    sparsity.load_state(...)                 only when a training goes on
    sparsity.bind(optimizer)                 once; weights and optimizer are as the first step will see them
    for every step:
        sparsity.before_step(step, batch)    before the forward passes; may put other weights in place
        ...  loss.backward() for every micro-batch
        sparsity.penalty()                   added to the loss, its gradient included, once a step
        sparsity.before_clip()               gradients are complete: mask or redirect them
        ...  clipping and optimizer.step()
        sparsity.after_step(step)            weights and optimizer must be whole again: they may be saved now
    sparsity.load_state(...)                 back to the best epoch's, only where early stopping is on
    sparsity.detach()                        gives the mask, leaves nothing behind in the model

Between ``after_step`` and the next ``before_step`` everything there is to know lies in the parameters, the
optimizer and ``state()``: that is when checkpoints and snapshots are taken, and why a resumed training is
byte-equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import backbone_parameters
from tombola.training.optimizers import Adamax

#: Update 0 by exactly 0 where gradient and memory are 0, decay included: half the work of a mask is saved.
QUIET = (torch.optim.AdamW, Adamax)


class Sparsity(Protocol):
    """Everything sparse about one training. The loop never asks which one it has."""

    def attach(self, model: nn.Module) -> list[dict[str, Any]]:
        """Prepare the model; returns extra parameter groups for the optimizer.

        A group's ``params`` are (name, parameter) pairs whose names are no parameter names of the model; it
        may set ``lr``, ``weight_decay`` and other options of the optimizer. Its rate follows the schedule;
        its gradients are not part of the clipped norm.
        """
        ...

    def bind(self, optimizer: torch.optim.Optimizer) -> None:
        """Take hold of the optimizer, for masks that clear or protect its state."""
        ...

    def before_step(self, step: int, batch: Mapping[str, Any]) -> None:
        """``batch`` tells what the step is about: ``indices`` (the examples) and ``epoch``."""
        ...

    def penalty(self) -> Tensor | None:
        """A differentiable scalar to add to the loss of the step, or None."""
        ...

    def before_clip(self) -> None:
        """The step's gradients are complete and not yet clipped."""
        ...

    def after_step(self, step: int) -> None:
        """The optimizer has made its step."""
        ...

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold beside weights and optimizer; extra parameters belong here."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put back what ``state`` gave. Empty when the training goes on from one that had none."""
        ...

    def detach(self) -> WeightMask | None:
        """Leave the model as a plain model; the mask that the training ended with, or None."""
        ...


class Dense:
    """No sparsity: the full model."""

    def attach(self, model: nn.Module) -> list[dict[str, Any]]:
        return []

    def bind(self, optimizer: torch.optim.Optimizer) -> None:
        pass

    def before_step(self, step: int, batch: Mapping[str, Any]) -> None:
        pass

    def penalty(self) -> Tensor | None:
        return None

    def before_clip(self) -> None:
        pass

    def after_step(self, step: int) -> None:
        pass

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        pass

    def detach(self) -> WeightMask | None:
        return None


class FixedMask(Dense):
    """f(m⊙θ, γ) with m fixed: pruned weights are +0.0 after every step and count in no gradient norm.

    Never a masked forward: the weights themselves are zero. Gradients are multiplied by the mask before
    clipping (SPEC 5, trap 8), and weights after the step (trap 7) unless the optimizer is known to leave an
    entry alone that has no weight, gradient and memory; both are one foreach pass over float masks. A mask
    set in the middle of a training also clears what the optimizer remembers of the dropped entries.
    """

    def __init__(self, mask: WeightMask) -> None:
        self.mask = mask
        self._weights: list[Tensor] = []
        self._keep: list[Tensor] = []
        self._bound = False
        self._moving = True

    def attach(self, model: nn.Module) -> list[dict[str, Any]]:
        parameters = backbone_parameters(model)
        self.mask.check_against({name: tuple(parameter.shape) for name, parameter in parameters.items()})
        self._weights = [parameters[name] for name in self.mask.names]
        self._keep = [
            self.mask[name].to(weight) for name, weight in zip(self.mask.names, self._weights, strict=True)
        ]
        self._zero(self._weights)
        return []

    def bind(self, optimizer: torch.optim.Optimizer) -> None:
        self._moving = not isinstance(optimizer, QUIET)
        if self._bound:
            return
        for weight, keep in zip(self._weights, self._keep, strict=True):
            for remembered in optimizer.state.get(weight, {}).values():
                if isinstance(remembered, Tensor) and remembered.shape == weight.shape:
                    remembered.masked_fill_(keep == 0, 0.0)

    @torch.no_grad()
    def before_clip(self) -> None:
        pairs = [
            (w.grad, keep) for w, keep in zip(self._weights, self._keep, strict=True) if w.grad is not None
        ]
        if pairs:
            torch._foreach_mul_([gradient for gradient, _ in pairs], [keep for _, keep in pairs])

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        if self._moving and self._weights:
            torch._foreach_mul_(self._weights, self._keep)

    def state(self) -> dict[str, Tensor]:
        return {"mask_digest": torch.tensor(list(bytes.fromhex(self.mask.digest())), dtype=torch.uint8)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """A training that already had this mask goes on as it is; any other has its optimizer cleared."""
        saved = state.get("mask_digest")
        self._bound = saved is not None and torch.equal(saved, self.state()["mask_digest"])

    def detach(self) -> WeightMask | None:
        self._zero(self._weights)
        self._weights, self._keep = [], []
        return self.mask

    @torch.no_grad()
    def _zero(self, weights: list[Tensor]) -> None:
        """An assignment, because a product would turn a negative weight into −0.0."""
        for weight, keep in zip(weights, self._keep, strict=True):
            weight.masked_fill_(keep == 0, 0.0)
