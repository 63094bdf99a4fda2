"""The loop: repeatable, rewindable, and the same whether a batch is taken whole or in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
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

from tombola.errors import DataError, RecipeError, TrainingError
from tombola.tasks.encoding import Encoded
from tombola.training.loop import evaluate
from tombola.training.order import batches_from
from tombola.training.recipe import Numerics, Recipe
from tombola.training.sparsity import FixedMask
from tombola.training.state import TrainingState


def test_two_runs_are_the_same_bytes_whatever_happened_before(folder: Path, data: Encoded) -> None:
    first, second = make_model(folder), make_model(folder)
    log = run(first, data).log
    torch.manual_seed(99)
    torch.rand(1000)
    np.random.seed(99)
    assert run(second, data).log == log
    assert same_bytes(weights_of(first), weights_of(second))


@pytest.mark.parametrize("change", [{"seed": 1}, {"purpose": "retrain"}])
def test_another_seed_or_purpose_is_another_training(
    change: dict[str, Any], folder: Path, data: Encoded
) -> None:
    first, second = make_model(folder), make_model(folder)
    run(first, data)
    run(second, data, **change)
    assert not same_bytes(weights_of(first), weights_of(second))


def test_dropout_is_drawn_anew_each_step_and_the_callers_random_state_is_left_alone(
    folder: Path, data: Encoded
) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    model = make_model(folder)
    seen: list[torch.Tensor] = []
    model.dropout.register_forward_hook(lambda module, given, gives: seen.append(gives.detach() == 0))
    run(model, data, RECIPE.with_(epochs=1, batch_size=10))
    assert torch.equal(torch.rand(3), expected)
    assert len(seen) == 5
    assert len({bits(zeros) for zeros in seen}) == 5


def test_the_loss_falls_and_the_log_has_means_and_rates(folder: Path, data: Encoded) -> None:
    heard: list[tuple[int, int]] = []
    result = run(
        make_model(folder),
        data,
        RECIPE.with_(epochs=6, warmup_share=0.1, learning_rate=1e-2),
        progress=lambda step, total, seconds: heard.append((step, total)),
        log_every=10,
    )
    assert heard == [(step, 42) for step in range(1, 43)]
    assert [row.step for row in result.log] == [10, 20, 30, 40, 42]
    assert result.log[-1].loss < 0.9 * result.log[0].loss
    assert result.log[0].learning_rate == pytest.approx(1e-2 * (42 - 9) / 38)
    assert result.log[-1].learning_rate == pytest.approx(1e-2 / 38)
    assert all(row.gradient_norm > 0 for row in result.log)
    assert (result.steps, result.first_step, result.examples) == (42, 0, 300)
    assert result.loss_last == result.log[-1].loss


def test_regression_learns(folder: Path) -> None:
    data = make_data(folder, kind="regression")
    result = run(make_model(folder, kind="regression"), data, RECIPE.with_(epochs=6))
    assert result.log[-1].loss < 0.5 * result.log[0].loss


# --- rewinding ------------------------------------------------------------


@pytest.mark.parametrize("recipe", [RECIPE, RECIPE.with_(optimizer="adamax", warmup_share=0.3)])
@pytest.mark.parametrize("step", [0, 7, 10, 20, 21])
def test_going_on_from_a_snapshot_equals_never_having_stopped(
    step: int, recipe: Recipe, folder: Path, data: Encoded
) -> None:
    whole = make_model(folder)
    first = run(whole, data, recipe, snapshots=(step,))
    other = make_model(folder, head_seed=1)
    second = run(other, data, recipe, resume_from=first.snapshots[step])
    assert same_bytes(weights_of(whole), weights_of(other))
    assert second.first_step == step
    assert second.examples == sum(
        len(batch)
        for _, _, batch in batches_from(step, lengths=data.lengths, recipe=recipe, seed=0, purpose="search")
    )


def test_a_snapshot_does_not_alias_what_goes_on_training(folder: Path, data: Encoded) -> None:
    """Trap 1: neither weights nor optimizer of a snapshot move, however the training goes on from it."""
    model = make_model(folder)
    pictures: dict[int, dict[str, torch.Tensor]] = {}

    def picture(state: TrainingState) -> None:
        pictures[state.step] = {**state.model, **state.optimizer}
        copies[state.step] = {name: tensor.clone() for name, tensor in pictures[state.step].items()}
        states.append(state)

    copies: dict[int, dict[str, torch.Tensor]] = {}
    states: list[TrainingState] = []
    result = run(model, data, snapshots=(0, 7), on_snapshot=picture)
    assert result.snapshots == {}
    run(make_model(folder), data, resume_from=states[1])
    for step in (0, 7):
        assert same_bytes(pictures[step], copies[step])
    assert not same_bytes(dict(states[0].model), weights_of(model))


def test_rewinding_to_a_step_takes_head_optimizer_and_place_in_the_schedule(
    folder: Path, data: Encoded
) -> None:
    model = make_model(folder)
    state = run(model, data, snapshots=(10,)).snapshots[10]
    rewound = make_model(folder, head_seed=1)
    mask = make_mask(rewound)
    result = run(rewound, data, sparsity=FixedMask(mask), resume_from=state, snapshots=(10,), log_every=1)
    again = result.snapshots[10]
    assert same_bytes({"head": again.model["classifier.weight"]}, {"head": state.model["classifier.weight"]})
    moment = "classifier.weight/exp_avg"
    assert bits(again.optimizer[moment]) == bits(state.optimizer[moment])
    assert [row.step for row in result.log] == list(range(11, 22))
    assert result.log[0].learning_rate == pytest.approx(1e-3 * 11 / 21)


def test_a_later_first_step_enters_the_schedule_with_a_new_optimizer(folder: Path, data: Encoded) -> None:
    result = run(make_model(folder), data, first_step=14, log_every=1)
    assert [row.step for row in result.log] == list(range(15, 22))
    assert result.log[0].learning_rate == pytest.approx(1e-3 * 7 / 21)
    assert result.examples == 50


def test_rewinding_with_another_recipe_or_to_no_step_is_refused(folder: Path, data: Encoded) -> None:
    model = make_model(folder)
    state = run(model, data, snapshots=(7,)).snapshots[7]
    with pytest.raises(RecipeError, match="21 steps, this one has 42"):
        run(model, data, RECIPE.with_(epochs=6), resume_from=state)
    with pytest.raises(RecipeError, match="no step 22"):
        run(model, data, snapshots=(22,))
    with pytest.raises(RecipeError, match="no step 3"):
        run(model, data, snapshots=(3,), resume_from=state)
    regression = make_model(folder, kind="regression")
    with pytest.raises(RecipeError, match=r"classifier\.(weight|bias)"):
        run(regression, data, resume_from=state)


# --- numerics -------------------------------------------------------------


@pytest.mark.parametrize("micro_batch", [1, 3, 4, 7, 8])
def test_a_batch_in_parts_equals_the_whole_batch(micro_batch: int, calm_folder: Path, data: Encoded) -> None:
    """Batches of 8 in parts of 3 are 3, 3 and 2 examples: each example weighs the same, not each part."""
    whole, parts = make_model(calm_folder), make_model(calm_folder)
    recipe = RECIPE.with_(epsilon=1e-4)
    first = run(whole, data, recipe)
    second = run(parts, data, recipe, numerics=Numerics(micro_batch=micro_batch))
    for one, other in zip(first.log, second.log, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-4)
    for name, weight in whole.named_parameters():
        torch.testing.assert_close(weight, parts.get_parameter(name), rtol=1e-4, atol=1e-6, msg=name)


def test_padding_to_the_full_length_changes_next_to_nothing(calm_folder: Path, data: Encoded) -> None:
    longest, full = make_model(calm_folder), make_model(calm_folder)
    widths: list[int] = []
    full.bert.embeddings.register_forward_hook(lambda module, given, gives: widths.append(gives.shape[1]))
    recipe = RECIPE.with_(epsilon=1e-4)
    first = run(longest, data, recipe)
    second = run(full, data, recipe.with_(padding="max_length"))
    assert set(widths) == {32}
    assert first.log[-1].loss == pytest.approx(second.log[-1].loss, rel=1e-4)


def test_bf16_computes_in_bf16_with_fp32_master_weights(folder: Path, data: Encoded) -> None:
    model, plain = make_model(folder), make_model(folder)
    kinds: set[torch.dtype] = set()
    model.bert.encoder.layer[0].output.dense.register_forward_hook(
        lambda module, given, gives: kinds.add(gives.dtype)
    )
    half = Numerics(precision="bf16")
    result, reference = run(model, data, numerics=half, snapshots=(21,)), run(plain, data)
    assert kinds == {torch.bfloat16}
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    state = result.snapshots[21]
    assert {value.dtype for value in state.optimizer.values()} == {torch.float32}
    assert not same_bytes(weights_of(model), weights_of(plain))
    assert result.log[-1].loss == pytest.approx(reference.log[-1].loss, rel=0.05)
    assert evaluate(model, data, half).dtype == np.float32


def test_attached_numerics_are_put_back(folder: Path, data: Encoded) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    run(
        make_model(folder),
        data,
        RECIPE.with_(epochs=1),
        numerics=Numerics(threads=2),
        progress=lambda *_: seen.append(torch.get_num_threads()),
    )
    assert set(seen) == {2}
    assert torch.get_num_threads() == before


# --- mistakes -------------------------------------------------------------


@pytest.mark.parametrize("broken", [3, 12])
def test_a_loss_that_is_not_a_number_names_the_step(broken: int, folder: Path, data: Encoded) -> None:
    model = make_model(folder)

    class Breaking(FixedMask):
        def after_step(self, step: int) -> None:
            if step == broken - 1:
                with torch.no_grad():
                    model.classifier.bias.fill_(float("nan"))

    sparsity = Breaking(make_mask(model))
    with pytest.raises(TrainingError, match=f"step {broken}"):
        run(model, data, sparsity=sparsity)


def test_an_exploding_training_saves_no_state(folder: Path, data: Encoded, tmp_path: Path) -> None:
    model = make_model(folder)
    with torch.no_grad():
        model.classifier.weight.fill_(float("inf"))
    with pytest.raises(TrainingError, match="diverged"):
        run(model, data, checkpoint_folder=tmp_path, checkpoint_every_seconds=0.0, snapshots=(5,))
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000000000"]


def test_data_without_labels_is_refused(folder: Path, data: Encoded) -> None:
    from dataclasses import replace

    with pytest.raises(DataError, match="nothing to train on"):
        run(make_model(folder), replace(data, targets=None))


# --- evaluation -----------------------------------------------------------


def test_evaluation_is_in_the_datas_order_and_leaves_the_model_as_it_was(folder: Path, data: Encoded) -> None:
    model = make_model(folder).train()
    model.bert.encoder.layer[0].eval()
    modes = [module.training for module in model.modules()]
    logits = evaluate(model, data, NUMERICS, batch_size=7)
    assert [module.training for module in model.modules()] == modes
    assert all(weight.grad is None for weight in model.parameters())
    assert logits.shape == (50, 2)
    assert logits.dtype == np.float32
    assert logits.tobytes() == evaluate(model, data, NUMERICS, batch_size=7).tobytes()
    from tombola.tasks.batching import collate

    model.eval()
    for index in (0, 17, 49):
        batch = collate(data, [index])
        batch.pop("labels")
        with torch.no_grad():
            alone = model(**batch).logits[0]
        torch.testing.assert_close(torch.from_numpy(logits[index]), alone, rtol=1e-4, atol=1e-6)


def test_evaluation_needs_no_labels(folder: Path, data: Encoded) -> None:
    from dataclasses import replace

    model = make_model(folder)
    bare = evaluate(model, replace(data, targets=None), NUMERICS)
    assert bare.tobytes() == evaluate(model, data, NUMERICS).tobytes()
