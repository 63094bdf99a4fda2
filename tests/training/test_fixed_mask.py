"""A fixed mask: exact zeros, no memory of dropped weights, and the trajectory of torch's own pruning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.tiny_training import (
    NUMERICS,
    RECIPE,
    bits,
    make_data,
    make_mask,
    make_model,
    run,
    same_bytes,
    weights_of,
)
from torch.nn.utils import clip_grad_norm_, prune

from tombola import streams
from tombola.errors import MaskMismatch
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of, backbone_parameters
from tombola.tasks.batching import collate, epoch_batches
from tombola.tasks.encoding import Encoded
from tombola.training.optimizers import build_optimizer
from tombola.training.recipe import Recipe
from tombola.training.sparsity import QUIET, FixedMask

RECIPES = {
    "adamw": RECIPE,
    "adamw foreach": RECIPE,
    "adamax": RECIPE.with_(optimizer="adamax"),
    "adamax as the authors": RECIPE.with_(optimizer="adamax", bias_correction=False, learning_rate=1e-2),
    "adamax, joined decay": RECIPE.with_(optimizer="adamax", decoupled_decay=False),
}


class Watched(FixedMask):
    """Looks at the pruned weights' bits after every step, before and behind the re-zeroing."""

    steps = 0

    def after_step(self, step: int) -> None:
        super().after_step(step)
        self.steps += 1
        for name, weight, keep in zip(self.mask.names, self._weights, self._keep, strict=True):
            pruned = weight.detach()[keep == 0]
            assert bits(pruned) == bytes(4 * len(pruned)), f"{name} at step {step}"
            assert weight.grad is not None
            assert torch.count_nonzero(weight.grad[keep == 0]) == 0, name


@pytest.mark.parametrize("name", RECIPES)
def test_pruned_weights_are_positive_zero_after_every_step(name: str, folder: Path, data: Encoded) -> None:
    model = make_model(folder)
    mask = make_mask(model)
    kernel = "foreach" if "foreach" in name else "fused"
    numerics = NUMERICS.from_json({**NUMERICS.to_json(), "optimizer_kernel": kernel})
    watched = Watched(mask)
    result = run(model, data, RECIPES[name], sparsity=watched, numerics=numerics)
    assert watched.steps == 21
    assert result.mask == mask
    # the sparsity of the weights themselves (trap 10)
    assert WeightMask.of_weights(backbone_parameters(model), mask.names) == mask


@pytest.mark.parametrize("name", RECIPES)
def test_a_mask_set_midway_clears_the_optimizers_memory(name: str, folder: Path, data: Encoded) -> None:
    """Trap 7: momentum of a dropped weight would go on moving it."""
    model = make_model(folder)
    dense = run(model, data, RECIPES[name], snapshots=(9,)).snapshots[9]
    assert any(bool(value.any()) for key, value in dense.optimizer.items() if not key.endswith("/step"))
    mask = make_mask(model)
    watched = Watched(mask)
    result = run(model, data, RECIPES[name], sparsity=watched, resume_from=dense, snapshots=(9,))
    assert watched.steps == 12
    rewound = result.snapshots[9]
    prefix = "bert."
    for key, value in rewound.optimizer.items():
        parameter, _, slot = key.rpartition("/")
        relative = parameter.removeprefix(prefix)
        if relative in mask and slot != "step":
            assert bits(value) == bits(torch.where(mask[relative], dense.optimizer[key], 0.0)), key
        else:
            assert bits(value) == bits(dense.optimizer[key]), key
    for key, value in rewound.model.items():
        relative = key.removeprefix(prefix)
        expected = (
            torch.where(mask[relative], dense.model[key], 0.0) if relative in mask else dense.model[key]
        )
        assert bits(value) == bits(expected), key


def test_the_start_is_the_given_weights_times_the_mask(folder: Path, data: Encoded) -> None:
    """Trap 1: bitwise θ0 × mask, the task head as it was drawn."""
    model = make_model(folder)
    before = weights_of(model)
    mask = make_mask(model)
    start = run(model, data, sparsity=FixedMask(mask), snapshots=(0,)).snapshots[0]
    for name, value in start.model.items():
        relative = name.removeprefix("bert.")
        expected = torch.where(mask[relative], before[name], 0.0) if relative in mask else before[name]
        assert bits(value) == bits(expected), name


def test_a_mask_of_ones_changes_no_bit(folder: Path, data: Encoded) -> None:
    dense, masked = make_model(folder), make_model(folder)
    log = run(dense, data).log
    ones = WeightMask.dense(anatomy_of(masked).shapes)
    assert run(masked, data, sparsity=FixedMask(ones)).log == log
    assert same_bytes(weights_of(dense), weights_of(masked))


@pytest.mark.parametrize("clip", [0.05, 1e6])
def test_kept_weights_move_as_under_torchs_own_pruning(clip: float, folder: Path, data: Encoded) -> None:
    """The reference: torch.nn.utils.prune in the forward pass, torch's AdamW, a loop written here."""
    recipe = RECIPE.with_(clip=clip, epsilon=1e-6)
    ours, reference = make_model(folder), make_model(folder)
    mask = make_mask(ours)
    result = run(ours, data, recipe, sparsity=FixedMask(mask))

    modules = dict(reference.bert.named_modules())
    for name in mask.names:
        prune.custom_from_mask(modules[name.removesuffix(".weight")], "weight", mask[name])
    norms = _plain_loop(reference, data, recipe)
    for name in mask.names:
        prune.remove(modules[name.removesuffix(".weight")], "weight")

    assert sum(norms[:5]) / 5 == pytest.approx(result.log[0].gradient_norm, rel=1e-5)
    for (name, mine), theirs in zip(
        ours.named_parameters(), dict(reference.named_parameters()), strict=False
    ):
        del theirs
        torch.testing.assert_close(
            mine, dict(reference.named_parameters())[name], rtol=1e-4, atol=2e-6, msg=name
        )


def test_clipping_that_counts_pruned_weights_would_be_seen(folder: Path, data: Encoded) -> None:
    """Trap 8: the wrong norm is larger and the trajectory another; the test above tells them apart."""
    recipe = RECIPE.with_(clip=0.05, epsilon=1e-6)
    ours, wrong = make_model(folder), make_model(folder)
    mask = make_mask(ours)
    right_norm = run(ours, data, recipe, sparsity=FixedMask(mask)).log[0].gradient_norm
    norms = _plain_loop(wrong, data, recipe, mask=mask)
    assert sum(norms[:5]) / 5 > 1.02 * right_norm
    weight = wrong.bert.encoder.layer[0].output.dense.weight
    mine = ours.bert.encoder.layer[0].output.dense.weight
    assert not torch.allclose(weight, mine, rtol=1e-4, atol=2e-6)


def test_the_gradients_work_is_float_and_on_the_parameters_device(folder: Path, data: Encoded) -> None:
    model = make_model(folder)
    sparsity = FixedMask(make_mask(model))
    sparsity.attach(model)
    assert {keep.dtype for keep in sparsity._keep} == {torch.float32}
    parameters = backbone_parameters(model)
    assert all(
        keep.device == parameters[name].device
        for name, keep in zip(sparsity.mask.names, sparsity._keep, strict=True)
    )
    sparsity.detach()
    assert sparsity._weights == []


def test_a_negative_pruned_weight_becomes_positive_zero() -> None:
    """-1 × 0 is −0.0, whose bytes are not zero: masks assign."""
    model = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0, -2.0]]))
    FixedMask(WeightMask({"weight": torch.tensor([[False, True]])})).attach(model)
    assert bits(model.weight) == bits(torch.tensor([[0.0, -2.0]]))


def test_a_mask_that_does_not_fit_names_the_parameter(folder: Path, data: Encoded) -> None:
    model = make_model(folder)
    foreign = WeightMask({"encoder.layer.7.output.dense.weight": torch.ones(2, 2, dtype=torch.bool)})
    with pytest.raises(MaskMismatch, match=r"encoder\.layer\.7\.output\.dense\.weight"):
        run(model, data, sparsity=FixedMask(foreign))
    wrong = WeightMask({"encoder.layer.0.output.dense.weight": torch.ones(2, 2, dtype=torch.bool)})
    with pytest.raises(MaskMismatch, match=r"encoder\.layer\.0\.output\.dense\.weight"):
        run(model, data, sparsity=FixedMask(wrong))


def test_regression_is_masked_alike(folder: Path) -> None:
    model = make_model(folder, kind="regression")
    mask = make_mask(model)
    watched = Watched(mask)
    result = run(model, make_data(folder, kind="regression"), sparsity=watched)
    assert watched.steps == 21
    assert result.log[-1].loss < result.log[0].loss


def test_whatever_moves_a_pruned_weight_it_is_zero_after_the_step(folder: Path) -> None:
    """Somebody else's optimizer, with a memory of its own, would move what gradients leave alone."""
    model = make_model(folder)
    sparsity = FixedMask(make_mask(model))
    sparsity.attach(model)
    sparsity.bind(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    with torch.no_grad():
        for weight in backbone_parameters(model).values():
            weight += 1.0
    sparsity.after_step(0)
    assert WeightMask.of_weights(backbone_parameters(model), sparsity.mask.names) == sparsity.mask


@pytest.mark.parametrize("name", RECIPES)
def test_the_optimizers_known_as_quiet_leave_an_entry_of_zeros_alone(name: str) -> None:
    """With weight, gradient (of either sign) and memory zero, the step must keep every bit zero."""
    kernel = "foreach" if "foreach" in name else "fused"
    weight = torch.nn.Parameter(torch.zeros(2, 50))
    recipe = RECIPES[name].with_(learning_rate=1.0, weight_decay=0.5)
    numerics = NUMERICS.from_json({**NUMERICS.to_json(), "optimizer_kernel": kernel})
    optimizer = build_optimizer([("weight", weight)], recipe, (), numerics)
    assert isinstance(optimizer, QUIET)
    for step in range(20):
        weight.grad = torch.zeros(2, 50) * torch.tensor([[1.0], [-1.0]]) * (-1) ** step
        optimizer.step()
        assert bits(weight) == bytes(400)


def _plain_loop(model: Any, data: Encoded, recipe: Recipe, mask: WeightMask | None = None) -> list[float]:
    """Fine-tuning as a script would do it; with ``mask``, in the wrong way that counts every gradient."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, eps=recipe.epsilon, weight_decay=recipe.weight_decay
    )
    masked = {} if mask is None else {model.get_parameter("bert." + name): mask[name] for name in mask.names}
    with torch.no_grad():
        for weight, keep in masked.items():
            weight.mul_(keep)
    norms, step, total = [], 0, 21
    model.train()
    for epoch in range(recipe.epochs):
        order = streams.derive(0, "search", "order")
        for indices in epoch_batches(data.lengths, recipe.batch_size, seed=order, epoch=epoch):
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * (total - step) / total
            torch.manual_seed(streams.derive(0, "search", "dropout", step))
            batch = collate(data, indices, multiple=1)
            loss = torch.nn.functional.cross_entropy(
                model(**{name: tensor for name, tensor in batch.items() if name != "labels"}).logits,
                batch["labels"],
            )
            optimizer.zero_grad()
            loss.backward()
            norms.append(float(clip_grad_norm_(model.parameters(), recipe.clip)))
            with torch.no_grad():
                for weight, keep in masked.items():
                    weight.grad.mul_(keep)
                optimizer.step()
                for weight, keep in masked.items():
                    weight.mul_(keep)
            step += 1
    return norms
