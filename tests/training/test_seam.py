"""The seam holds more than fixed masks: toys with a learned mask and with a mask per minibatch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.tiny_training import RECIPE, bits, make_mask, make_model, run, weights_of
from tests.training.toy_sparsity import LearnedMask, SwitchingMasks
from torch import Tensor

from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import backbone_parameters
from tombola.tasks.batching import collate
from tombola.tasks.encoding import Encoded
from tombola.training.loop import loss_sum
from tombola.training.sparsity import Dense


class Spy(Dense):
    """Writes down what the loop does, and the optimizer's rates at every step."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rates: list[float] = []
        self.batches: list[tuple[int, ...]] = []
        self.epochs: list[int] = []

    def attach(self, model: torch.nn.Module) -> list[dict[str, Any]]:
        self.calls.append("attach")
        return []

    def bind(self, optimizer: torch.optim.Optimizer) -> None:
        self.calls.append("bind")
        self.optimizer = optimizer

    def before_step(self, step: int, batch: Mapping[str, Any]) -> None:
        self.calls.append(f"before_step {step}")
        self.rates += [group["lr"] for group in self.optimizer.param_groups]
        self.batches.append(tuple(batch["indices"].tolist()))
        self.epochs.append(batch["epoch"])

    def penalty(self) -> Tensor | None:
        self.calls.append("penalty")
        return None

    def before_clip(self) -> None:
        self.calls.append("before_clip")

    def after_step(self, step: int) -> None:
        self.calls.append(f"after_step {step}")

    def detach(self) -> WeightMask | None:
        self.calls.append("detach")
        return None


def test_the_loop_calls_the_seam_in_the_documented_order(folder: Path, data: Encoded) -> None:
    spy = Spy()
    run(make_model(folder), data, RECIPE.with_(epochs=1, batch_size=25), sparsity=spy)
    step = ["penalty", "before_clip"]
    expected = ["attach", "bind"]
    for number in (0, 1):
        expected += [f"before_step {number}", *step, f"after_step {number}"]
    assert spy.calls == [*expected, "detach"]


def test_the_rate_of_every_round_starts_at_the_top_and_ends_at_zero(folder: Path, data: Encoded) -> None:
    """Trap 2: a second round with the same recipe makes the very same rates, down to 1/t in the last step."""
    for _ in range(2):
        spy = Spy()
        run(make_model(folder), data, sparsity=spy)
        assert spy.rates == pytest.approx([1e-3 * (21 - step) / 21 for step in range(21)])


def test_every_epoch_has_every_example_once_in_batches_of_its_own(folder: Path, data: Encoded) -> None:
    """Trap 9."""
    for order in ("buckets", "random"):
        spy = Spy()
        run(make_model(folder), data, RECIPE.with_(order=order), sparsity=spy)
        assert spy.epochs == [epoch for epoch in range(3) for _ in range(7)]
        epochs = [spy.batches[start : start + 7] for start in (0, 7, 14)]
        for batches in epochs:
            assert sorted(index for batch in batches for index in batch) == list(range(50))
        compositions = [{frozenset(batch) for batch in batches} for batches in epochs]
        assert compositions[0] != compositions[1] != compositions[2] != compositions[0]


def test_an_extra_groups_rate_follows_the_schedule(folder: Path, data: Encoded) -> None:
    model = make_model(folder)
    before = weights_of(model)
    seen: list[list[float]] = []

    class Watching(LearnedMask):
        def bind(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

        def after_step(self, step: int) -> None:
            super().after_step(step)
            seen.append([group["lr"] for group in self.optimizer.param_groups])

    learned = Watching(second_optimizer=False)
    result = run(model, data, sparsity=learned)
    assert seen[0] == pytest.approx([1e-3, 0.5])
    assert seen[-1] == pytest.approx([1e-3 / 21, 0.5 / 21])
    assert result.mask is not None
    assert 0.05 < result.mask.sparsity < 0.95, "the mask has learned nothing"
    assert any(bits(before[name]) != bits(weight) for name, weight in weights_of(model).items())


@pytest.mark.parametrize("second_optimizer", [False, True])
def test_the_learned_masks_gradients_are_autograds(
    second_optimizer: bool, calm_folder: Path, data: Encoded
) -> None:
    """One step of the toy against autograd through w·σ(βs), so that the seam is known to be enough."""
    model, reference = make_model(calm_folder), make_model(calm_folder)
    grads: dict[str, tuple[Tensor, Tensor]] = {}
    indices: list[Any] = []

    class Watching(LearnedMask):
        def before_step(self, step: int, batch: Mapping[str, Any]) -> None:
            with torch.no_grad():
                for score in self.scores.values():
                    score.fill_(0.3)
            indices.append(batch["indices"])
            super().before_step(step, batch)

        def before_clip(self) -> None:
            super().before_clip()
            for name, weight in self.weights.items():
                grads[name] = (weight.grad.clone(), self.scores[name].grad.clone())

    recipe = RECIPE.with_(epochs=1, batch_size=50)
    run(model, data, recipe, sparsity=Watching(second_optimizer=second_optimizer, weight=0.01))

    weights = {f"bert.{name}": dict(reference.named_parameters())[f"bert.{name}"] for name in grads}
    scores = {name: torch.full_like(weight, 0.3, requires_grad=True) for name, weight in weights.items()}
    effective = {name: weight * torch.sigmoid(scores[name]) for name, weight in weights.items()}
    batch = collate(data, indices[0])
    labels = batch.pop("labels")
    logits = torch.func.functional_call(reference.train(), effective, kwargs=batch).logits
    loss = loss_sum(logits, labels) / 50 + 0.01 * sum(torch.sigmoid(s).sum() for s in scores.values())
    loss.backward()
    for name, (weight_grad, score_grad) in grads.items():
        torch.testing.assert_close(weight_grad, weights[f"bert.{name}"].grad, rtol=1e-4, atol=1e-7)
        torch.testing.assert_close(score_grad, scores[f"bert.{name}"].grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("optimizer", ["adamw", "adamax"])
def test_switching_masks_move_nothing_outside_the_minibatchs_mask(
    optimizer: str, folder: Path, data: Encoded
) -> None:
    model = make_model(folder)
    masks = [make_mask(model, seed=seed) for seed in range(3)]
    start = {name: weight.detach().clone() for name, weight in backbone_parameters(model).items()}

    class Watching(SwitchingMasks):
        moved = 0

        def before_step(self, step: int, batch: Mapping[str, Any]) -> None:
            self.earlier = self._picture()
            super().before_step(step, batch)

        def after_step(self, step: int) -> None:
            super().after_step(step)
            for name, tensors in self._picture().items():
                mask = self.mask[name]
                for slot, tensor in tensors.items():
                    before = self.earlier[name].get(slot, torch.zeros_like(tensor))
                    assert torch.equal(tensor[~mask], before[~mask]), (name, slot, step)
                    Watching.moved += int((tensor[mask] != before[mask]).sum())

        def _picture(self) -> dict[str, dict[str, Tensor]]:
            return {
                name: {"weight": weight.detach().clone()}
                | {
                    slot: value.clone()
                    for slot, value in self.optimizer.state.get(weight, {}).items()
                    if value.shape == weight.shape
                }
                for name, weight in self.weights.items()
            }

    run(model, data, RECIPE.with_(optimizer=optimizer), sparsity=Watching(masks))
    assert Watching.moved > 0
    for name, weight in backbone_parameters(model).items():
        if name in masks[0]:
            in_none = ~(masks[0][name] | masks[1][name] | masks[2][name])
            assert torch.equal(weight.detach()[in_none], start[name][in_none])
