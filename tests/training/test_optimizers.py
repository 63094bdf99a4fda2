"""Optimizers against torch's own, and against their formulas written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.training.tiny_training import bits
from torch import nn

from tombola.errors import CorruptArtifact, RecipeError
from tombola.training.optimizers import (
    Adamax,
    build_optimizer,
    load_optimizer_state,
    optimizer_state,
    set_learning_rate,
)
from tombola.training.recipe import Numerics, Recipe


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 2))


def _steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int, seed: int = 1) -> None:
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=draw)
        optimizer.step()


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamax_makes_torchs_bits_where_the_options_are_off(decay: float) -> None:
    ours, theirs = _model(), _model()
    mine = Adamax(ours.parameters(), lr=1e-2, weight_decay=decay, decoupled_decay=False)
    reference = torch.optim.Adamax(theirs.parameters(), lr=1e-2, weight_decay=decay, foreach=True)
    for rate in (1e-2, 3e-3, 1e-3):
        for optimizer in (mine, reference):
            for group in optimizer.param_groups:
                group["lr"] = rate
        _steps(ours, mine, 10)
        _steps(theirs, reference, 10)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert bits(one) == bits(other)


@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("decoupled", [True, False])
def test_adamaxs_options_follow_the_formula(bias_correction: bool, decoupled: bool) -> None:
    rate, beta1, beta2, eps, decay = 0.1, 0.8, 0.9, 1e-3, 0.5
    weight = nn.Parameter(torch.tensor([2.0, -3.0], dtype=torch.float64))
    optimizer = Adamax(
        [weight], rate, (beta1, beta2), eps, decay, bias_correction=bias_correction, decoupled_decay=decoupled
    )
    w, m, u = [2.0, -3.0], [0.0, 0.0], [0.0, 0.0]
    for t, gradient in enumerate([[1.0, -2.0], [0.5, 0.0], [-4.0, 1.0]], start=1):
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        for i, g in enumerate(gradient):
            if decoupled:
                w[i] -= rate * decay * w[i]
            else:
                g = g + decay * w[i]
            m[i] = beta1 * m[i] + (1 - beta1) * g
            u[i] = max(beta2 * u[i], abs(g) + eps)
            w[i] -= rate / (1 - beta1**t if bias_correction else 1.0) * m[i] / u[i]
        assert weight.tolist() == pytest.approx(w, rel=1e-12)


def test_adamax_leaves_a_parameter_without_gradient_alone() -> None:
    model = _model()
    optimizer = Adamax(model.parameters(), weight_decay=0.1)
    before = [bits(weight) for weight in model.parameters()]
    optimizer.step()
    assert [bits(weight) for weight in model.parameters()] == before


@pytest.mark.parametrize("kernel", ["fused", "foreach"])
@pytest.mark.parametrize("bias_correction", [True, False])
def test_adamw_follows_the_formula_with_and_without_bias_correction(
    kernel: Any, bias_correction: bool
) -> None:
    recipe = Recipe(
        learning_rate=0.1, betas=(0.8, 0.9), epsilon=1e-3, weight_decay=0.5, bias_correction=bias_correction
    )
    weight = nn.Parameter(torch.tensor([[2.0, -3.0]], dtype=torch.float64))
    optimizer = build_optimizer([("w", weight)], recipe, (), Numerics(optimizer_kernel=kernel))
    assert optimizer.defaults[kernel] is True
    w, m, v = [2.0, -3.0], [0.0, 0.0], [0.0, 0.0]
    for t, gradient in enumerate([[1.0, -2.0], [0.5, 0.0], [-4.0, 1.0]], start=1):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        for i, g in enumerate(gradient):
            w[i] -= 0.1 * 0.5 * w[i]
            m[i] = 0.8 * m[i] + 0.2 * g
            v[i] = 0.9 * v[i] + 0.1 * g * g
            first, second = (1 - 0.8**t, 1 - 0.9**t) if bias_correction else (1.0, 1.0)
            w[i] -= 0.1 * (m[i] / first) / ((v[i] / second) ** 0.5 + 1e-3)
        assert weight[0].tolist() == pytest.approx(w, rel=1e-9)


def test_biases_and_norms_are_exempt_by_dimension_whatever_their_names() -> None:
    model = nn.ModuleDict({"bias": nn.Linear(3, 3), "weights": nn.LayerNorm(3)})
    recipe = Recipe(weight_decay=0.01, decay_exempt="bias_and_norm")
    optimizer = build_optimizer(model.named_parameters(), recipe)
    decay = {name: group["weight_decay"] for group in optimizer.param_groups for name in group["param_names"]}
    assert decay == {"bias.weight": 0.01, "bias.bias": 0.0, "weights.weight": 0.0, "weights.bias": 0.0}
    everything = build_optimizer(model.named_parameters(), Recipe(weight_decay=0.01))
    assert [group["weight_decay"] for group in everything.param_groups] == [0.01]


def test_every_group_keeps_its_own_highest_rate() -> None:
    model, extra = _model(), nn.Parameter(torch.zeros(3))
    optimizer = build_optimizer(
        model.named_parameters(), Recipe(), [{"params": [("scores", extra)], "lr": 0.5, "weight_decay": 0.0}]
    )
    set_learning_rate(optimizer, 0.25)
    set_learning_rate(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-5, 0.25]
    assert optimizer.param_groups[1]["param_names"] == ["scores"]


def test_frozen_parameters_are_left_out() -> None:
    model = _model()
    model[0].requires_grad_(False)
    optimizer = build_optimizer(model.named_parameters(), Recipe())
    names = [name for group in optimizer.param_groups for name in group["param_names"]]
    assert names == ["1.weight", "1.bias", "2.weight", "2.bias"]
    with pytest.raises(RecipeError, match="trainable"):
        build_optimizer(model[0].named_parameters(), Recipe())


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(optimizer="adamax"), Recipe(bias_correction=False)])
@pytest.mark.parametrize("kernel", ["fused", "foreach"])
def test_saved_state_goes_on_to_the_same_bits(recipe: Recipe, kernel: Any) -> None:
    numerics = Numerics(optimizer_kernel=kernel)
    whole = _model()
    optimizer = build_optimizer(whole.named_parameters(), recipe, (), numerics)
    _steps(whole, optimizer, 5)
    saved = optimizer_state(optimizer)
    copies = {name: bits(value) for name, value in saved.items()}
    resumed = _model()
    resumed.load_state_dict(whole.state_dict())
    _steps(whole, optimizer, 5, seed=2)
    assert {name: bits(value) for name, value in saved.items()} == copies, "the saved state moved"

    second = build_optimizer(resumed.named_parameters(), recipe, (), numerics)
    load_optimizer_state(second, saved)
    _steps(resumed, second, 5, seed=2)
    assert {name: bits(value) for name, value in saved.items()} == copies, "the saved state moved"
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert bits(one) == bits(other)


def test_state_of_another_model_is_refused_by_name() -> None:
    model = _model()
    optimizer = build_optimizer(model.named_parameters(), Recipe())
    with pytest.raises(CorruptArtifact, match=r"9\.weight"):
        load_optimizer_state(optimizer, {"9.weight/exp_avg": torch.zeros(2)})
    with pytest.raises(CorruptArtifact, match=r"0\.weight/exp_avg"):
        load_optimizer_state(optimizer, {"0.weight/exp_avg": torch.zeros(2)})
