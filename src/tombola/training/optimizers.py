"""Optimizers: torch's fused AdamW, and Adamax with the super-ticket authors' options (SPEC 2.4, 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tombola.errors import CorruptArtifact, RecipeError
from tombola.training.recipe import Numerics, Recipe

#: β^step is 0 in float64 from here on, so that Adam's bias correction divides by exactly 1.
LATE = 2.0**20


class Adamax(torch.optim.Optimizer):
    """Adam with the infinity norm (Kingma & Ba 2015, section 7), in foreach passes.

    With ``bias_correction`` and without ``decoupled_decay`` it makes the same bits as torch.optim.Adamax. The
    super-ticket authors train without the correction and with decoupled decay.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        bias_correction: bool = True,
        decoupled_decay: bool = True,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
            "decoupled_decay": decoupled_decay,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        if closure is not None:
            raise RecipeError("Adamax takes no closure", where="optimizer")
        for group in self.param_groups:
            self._step_group(group)

    def _step_group(self, group: dict[str, Any]) -> None:
        weights = [weight for weight in group["params"] if weight.grad is not None]
        if not weights:
            return
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(weight),
                    "exp_inf": torch.zeros_like(weight),
                }
        gradients: Any = [weight.grad for weight in weights]
        means = [self.state[weight]["exp_avg"] for weight in weights]
        peaks = [self.state[weight]["exp_inf"] for weight in weights]
        steps = [self.state[weight]["step"] for weight in weights]
        rate, decay, (beta1, beta2) = group["lr"], group["weight_decay"], group["betas"]

        torch._foreach_add_(steps, torch.tensor(1.0), alpha=1.0)
        if decay and group["decoupled_decay"]:
            torch._foreach_mul_(weights, 1.0 - rate * decay)
        elif decay:
            gradients = torch._foreach_add(gradients, weights, alpha=decay)
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(peaks, beta2)
        sizes = torch._foreach_abs(gradients)
        torch._foreach_add_(sizes, group["eps"])
        torch._foreach_maximum_(peaks, sizes)
        if group["bias_correction"]:
            rates = [-(rate / (1 - beta1 ** step.item())) for step in steps]
        else:
            rates = [-rate] * len(weights)
        torch._foreach_addcdiv_(weights, means, peaks, rates)


def build_optimizer(
    named: Iterable[tuple[str, nn.Parameter]],
    recipe: Recipe,
    extra_groups: Iterable[Mapping[str, Any]] = (),
    numerics: Numerics | None = None,
) -> torch.optim.Optimizer:
    """The recipe's optimizer over a model's named parameters and a Sparsity's extra groups.

    Biases and norms are told from matrices by their dimension, never by their names. Every group keeps its
    own highest rate under ``initial_lr``.
    """
    numerics = numerics or Numerics()
    trained = [(name, weight) for name, weight in named if weight.requires_grad]
    if not trained:
        raise RecipeError("no parameter of the model is trainable", where="model")
    groups: list[dict[str, Any]] = [{"params": trained, "weight_decay": recipe.weight_decay}]
    if recipe.weight_decay and recipe.decay_exempt == "bias_and_norm":
        vectors = [(name, weight) for name, weight in trained if weight.ndim < 2]
        matrices = [(name, weight) for name, weight in trained if weight.ndim >= 2]
        decayed = [{"params": matrices, "weight_decay": recipe.weight_decay}] if matrices else []
        groups = [*decayed, *([{"params": vectors, "weight_decay": 0.0}] if vectors else [])]
    groups += [dict(group) for group in extra_groups]
    optimizer = OPTIMIZERS[recipe.optimizer](groups, recipe, numerics)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    return optimizer


def _adamw(groups: list[dict[str, Any]], recipe: Recipe, numerics: Numerics) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(
        groups,
        lr=recipe.learning_rate,
        betas=recipe.betas,
        eps=recipe.epsilon,
        weight_decay=recipe.weight_decay,
        fused=numerics.optimizer_kernel == "fused",
        foreach=numerics.optimizer_kernel == "foreach",
    )
    if not recipe.bias_correction:
        _start_late(optimizer, fused=numerics.optimizer_kernel == "fused")
    return optimizer


def _start_late(optimizer: torch.optim.Optimizer, *, fused: bool) -> None:
    """torch's AdamW has no switch for bias correction: a step counter that starts late is one, exactly."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            optimizer.state[weight] = {
                "step": torch.tensor(LATE, device=weight.device if fused else "cpu"),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }


def _adamax(groups: list[dict[str, Any]], recipe: Recipe, numerics: Numerics) -> torch.optim.Optimizer:
    return Adamax(
        groups,
        lr=recipe.learning_rate,
        betas=recipe.betas,
        eps=recipe.epsilon,
        weight_decay=recipe.weight_decay,
        bias_correction=recipe.bias_correction,
        decoupled_decay=recipe.decoupled_decay,
    )


#: Every optimizer by the name that a recipe uses.
OPTIMIZERS: dict[str, Callable[[list[dict[str, Any]], Recipe, Numerics], torch.optim.Optimizer]] = {
    "adamw": _adamw,
    "adamax": _adamax,
}


def set_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Every group at ``factor`` of its highest rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Copies of everything the optimizer remembers, as ``parameter/slot``, on the CPU."""
    return {
        f"{name}/{slot}": value.detach().to("cpu", copy=True)
        for group in optimizer.param_groups
        for name, weight in zip(group["param_names"], group["params"], strict=True)
        for slot, value in sorted(optimizer.state.get(weight, {}).items())
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, saved: Mapping[str, Tensor]) -> None:
    """Put copies of ``optimizer_state``'s tensors back; names the optimizer lacks are refused.

    A parameter that ``saved`` does not name starts without memory: so do a new Sparsity's extra parameters.
    """
    known = {name: weight for group in optimizer.param_groups for name, weight in _named(group)}
    fused = bool(optimizer.defaults.get("fused"))
    slots: dict[str, dict[str, Tensor]] = {}
    for key, value in saved.items():
        name, _, slot = key.rpartition("/")
        if name not in known:
            raise CorruptArtifact(
                "the saved optimizer state is about a parameter that is not trained here",
                where=name or key,
                todo="give the model, task head and sparsity that it was saved with",
            )
        weight = known[name]
        if value.ndim and value.shape != weight.shape:
            raise CorruptArtifact(
                f"the saved optimizer state has the shape {tuple(value.shape)}, "
                f"the parameter {tuple(weight.shape)}",
                where=key,
            )
        device = "cpu" if slot == "step" and not fused else weight.device
        slots.setdefault(name, {})[slot] = value.to(device, copy=True)
    for name, remembered in slots.items():
        optimizer.state[known[name]] = remembered


def _named(group: Mapping[str, Any]) -> Iterable[tuple[str, Tensor]]:
    return zip(group["param_names"], group["params"], strict=True)
