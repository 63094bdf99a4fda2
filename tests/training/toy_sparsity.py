"""Two toys that later methods resemble: a learned mask with its own parameters, and a mask per minibatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of, backbone_parameters
from tombola.training.sparsity import Dense


class LearnedMask(Dense):
    """f(σ(βs)⊙w) + λ·Σσ(βs), β growing with the step (SPEC 4.1); the chain rule is by hand.

    No module is changed: ``before_step`` puts σ(βs)⊙w into the parameters, ``before_clip`` turns ∂L/∂(m⊙w)
    into gradients of w and s and puts w back. The scores are an extra group of the model's optimizer, or have
    a second optimizer of their own.
    """

    def __init__(self, *, second_optimizer: bool, weight: float = 1e-9, rate: float = 0.5) -> None:
        self.second_optimizer = second_optimizer
        self.weight = weight
        self.rate = rate

    def attach(self, model: nn.Module) -> list[dict[str, Any]]:
        parameters = backbone_parameters(model)
        self.weights = {name: parameters[name] for name in anatomy_of(model).prunable_names}
        self.scores = {name: nn.Parameter(torch.zeros_like(weight)) for name, weight in self.weights.items()}
        if self.second_optimizer:
            self.own = torch.optim.SGD(self.scores.values(), lr=self.rate, momentum=0.9)
            return []
        named = [(f"scores.{name}", score) for name, score in self.scores.items()]
        return [{"params": named, "lr": self.rate, "weight_decay": 0.0}]

    @torch.no_grad()
    def before_step(self, step: int, batch: Mapping[str, Any]) -> None:
        self.beta = 1.0 + 0.2 * step
        self.dense = {name: weight.clone() for name, weight in self.weights.items()}
        for name, weight in self.weights.items():
            weight.mul_(torch.sigmoid(self.beta * self.scores[name]))

    def penalty(self) -> Tensor:
        total = sum(torch.sigmoid(self.beta * score).sum() for score in self.scores.values())
        return self.weight * total

    @torch.no_grad()
    def before_clip(self) -> None:
        for name, weight in self.weights.items():
            score, soft = self.scores[name], torch.sigmoid(self.beta * self.scores[name])
            score.grad += weight.grad * self.dense[name] * self.beta * soft * (1 - soft)
            weight.grad *= soft
            weight.copy_(self.dense[name])

    def after_step(self, step: int) -> None:
        if self.second_optimizer:
            self.own.step()
        for score in self.scores.values():
            score.grad = None

    def state(self) -> dict[str, Tensor]:
        saved = {f"scores.{name}": score.detach() for name, score in self.scores.items()}
        if self.second_optimizer:
            for name, score in self.scores.items():
                for slot, value in self.own.state.get(score, {}).items():
                    saved[f"{slot}.{name}"] = value
        return saved

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        for name, score in self.scores.items():
            if f"scores.{name}" in state:
                score.copy_(state[f"scores.{name}"])
            if f"momentum_buffer.{name}" in state:
                self.own.state[score]["momentum_buffer"] = state[f"momentum_buffer.{name}"].clone()

    def detach(self) -> WeightMask:
        return WeightMask({name: score.detach() >= 0 for name, score in self.scores.items()})


class SwitchingMasks(Dense):
    """Another mask for each minibatch, strict (SPEC 3.5): nothing outside it moves, nor its moments."""

    def __init__(self, masks: Sequence[WeightMask]) -> None:
        self.masks = masks

    def attach(self, model: nn.Module) -> list[dict[str, Any]]:
        parameters = backbone_parameters(model)
        self.weights = {name: parameters[name] for name in self.masks[0].names}
        return []

    def bind(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    @torch.no_grad()
    def before_step(self, step: int, batch: Mapping[str, Any]) -> None:
        self.mask = self.masks[step % len(self.masks)]
        self.held = {name: weight.clone() for name, weight in self.weights.items()}
        for name, weight in self.weights.items():
            weight.mul_(self.mask[name])

    @torch.no_grad()
    def before_clip(self) -> None:
        self.moments = {}
        for name, weight in self.weights.items():
            weight.grad *= self.mask[name]
            slots = self.optimizer.state.get(weight, {})
            self.moments[name] = {
                slot: value.clone() for slot, value in slots.items() if value.shape == weight.shape
            }

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        for name, weight in self.weights.items():
            outside = ~self.mask[name]
            weight[outside] = self.held[name][outside]
            for slot, value in self.optimizer.state[weight].items():
                if value.shape == weight.shape:
                    before = self.moments[name].get(slot)
                    value[outside] = 0.0 if before is None else before[outside]
