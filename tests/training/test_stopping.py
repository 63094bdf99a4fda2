"""Early stopping: the best epoch's weights bit for bit, chosen by one share of dev, wherever it was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from tests.training.toy_sparsity import LearnedMask

from tombola.errors import DataError, RecipeError, TrainingError
from tombola.models.anatomy import backbone_parameters
from tombola.tasks.encoding import Encoded
from tombola.tasks.metrics import score
from tombola.tasks.splitting import selection_share
from tombola.training import stopping as module
from tombola.training.evaluate import evaluate
from tombola.training.history import TrainingResult
from tombola.training.recipe import Numerics, Recipe
from tombola.training.sparsity import Dense, FixedMask
from tombola.training.stopping import Stopping

#: Seven steps an epoch, five epochs at most.
STOPPED = RECIPE.with_(epochs=5, early_stopping=True)
STEPS = 7


@pytest.fixture(scope="module")
def dev(folder: Path) -> Encoded:
    return make_data(folder, examples=40)


@pytest.fixture(scope="module")
def whole(folder: Path, data: Encoded) -> dict[int, dict[str, torch.Tensor]]:
    """The weights after every epoch of the same training without early stopping."""
    ends = [STEPS * epoch for epoch in range(1, 6)]
    result = run(make_model(folder), data, STOPPED.without_stopping(), snapshots=ends)
    names = weights_of(make_model(folder)).keys()
    return {
        epoch: {name: result.snapshots[end].model[name] for name in names}
        for epoch, end in enumerate(ends, 1)
    }


def make_stopping(dev: Encoded, recipe: Recipe = STOPPED, metrics: Sequence[str] = ("accuracy",)) -> Stopping:
    return Stopping(recipe, dev, metrics, NUMERICS)


def scripted(
    monkeypatch: pytest.MonkeyPatch, dev: Encoded, script: Sequence[float], recipe: Recipe = STOPPED
) -> Stopping:
    """A stopping whose epochs score as the script says; which epoch it is, only the stopping itself knows."""
    stopping = make_stopping(dev, recipe)
    monkeypatch.setattr(module, "score", lambda *_: {"accuracy": script[len(stopping.epochs)]})
    return stopping


@pytest.mark.parametrize(
    ("script", "patience", "epochs", "best"),
    [
        ((60, 70, 65, 99, 99), 1, 3, 2),
        ((60, 70, 70, 99, 99), 1, 3, 2),
        ((70, 70, 99, 99, 99), 1, 2, 1),
        ((70, 60, 70, 99, 99), 2, 3, 1),
        ((70, 60, 80, 75, 79), 2, 5, 3),
        ((50, 60, 70, 80, 90), 1, 5, 5),
        ((90, 80, 70, 60, 50), 9, 5, 1),
    ],
    ids=[
        "a worse epoch",
        "a tie is no improvement and the earlier epoch stays",
        "a tie at once",
        "a tie with the best after a worse epoch",
        "an improvement renews the patience",
        "never stopped, the last is the best",
        "never stopped, the first is the best",
    ],
)
def test_it_stops_after_so_many_epochs_without_improvement_and_ends_with_the_best(
    script: Sequence[float],
    patience: int,
    epochs: int,
    best: int,
    folder: Path,
    data: Encoded,
    dev: Encoded,
    whole: dict[int, dict[str, torch.Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weights are those that the whole recipe has after that epoch: its learning rates, its order, its dropout."""
    recipe = STOPPED.with_(patience=patience)
    model = make_model(folder)
    result = run(model, data, recipe, stopping=scripted(monkeypatch, dev, script, recipe))
    assert (result.steps, result.best_epoch) == (STEPS * epochs, best)
    assert [(each.epoch, each.step, each.score) for each in result.epochs] == [
        (epoch, STEPS * epoch, script[epoch - 1]) for epoch in range(1, epochs + 1)
    ]
    assert same_bytes(weights_of(model), whole[best])
    assert model.training, "it is handed back as it came"


def test_what_was_trained_is_counted_and_logged_and_nothing_else(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[int, int]] = []
    result = run(
        make_model(folder),
        data,
        STOPPED,
        stopping=scripted(monkeypatch, dev, (70, 60)),
        progress=lambda step, total, _: heard.append((step, total)),
    )
    expected = run(make_model(folder), data, STOPPED.without_stopping())
    assert result.examples == 2 * 50
    assert [row.step for row in result.log] == [5, 10, 14]
    assert result.log[:2] == expected.log[:2], "the same losses and the whole recipe's learning rates"
    assert heard == [(step, 35) for step in range(1, 15)]


def test_the_score_is_the_mean_of_the_metrics_on_one_seeded_share_of_dev(
    folder: Path, data: Encoded, dev: Encoded
) -> None:
    """Computed again from the weights of every epoch and the logits of the whole dev set."""
    recipe = STOPPED.with_(learning_rate=0.03, patience=9, stop_share=0.3, stop_seed=4)
    metrics = ("accuracy", "f1")
    stopping = make_stopping(dev, recipe, metrics)
    ends = [STEPS * epoch for epoch in range(1, 6)]
    result = run(make_model(folder), data, recipe, stopping=stopping, snapshots=ends)
    rows, others = selection_share(40, 0.3, 4)
    assert (len(rows), len(others)) == (12, 28)
    assert dev.targets is not None
    by_hand = []
    for end in ends:
        model = make_model(folder)
        model.load_state_dict(result.snapshots[end].model, strict=False)
        by_hand.append(score(metrics, evaluate(model, dev, NUMERICS)[rows], dev.targets[rows]))
    assert len({tuple(each.values()) for each in by_hand}) > 1, "the epochs must differ in this test"
    assert [dict(epoch.scores) for epoch in result.epochs] == by_hand
    assert [epoch.score for epoch in result.epochs] == [
        (each["accuracy"] + each["f1"]) / 2 for each in by_hand
    ]


def test_every_epoch_is_scored_on_the_same_examples(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    def watching(model: Any, share: Encoded, numerics: Numerics) -> np.ndarray:
        seen.append(share.ids.tobytes() + share.offsets.tobytes())
        return evaluate(model, share, numerics)

    monkeypatch.setattr(module, "evaluate", watching)
    recipe = STOPPED.with_(patience=9)
    for seed in (0, 1):
        run(make_model(folder), data, recipe, seed=seed, stopping=make_stopping(dev, recipe))
    assert len(seen) == 2 * 5
    expected = dev.take(selection_share(40, 0.1, 0)[0])
    assert set(seen) == {expected.ids.tobytes() + expected.offsets.tobytes()}


def test_a_fixed_masks_pruned_weights_are_zero_in_the_best_epoch_too(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(folder)
    mask = make_mask(model)
    plain = make_model(folder)
    masked = run(plain, data, STOPPED.without_stopping(), sparsity=FixedMask(mask), snapshots=(STEPS,))
    result = run(
        model, data, STOPPED, sparsity=FixedMask(mask), stopping=scripted(monkeypatch, dev, (70, 60))
    )
    assert result.mask == mask
    weights = backbone_parameters(model)
    for name in mask.names:
        pruned = weights[name][~mask[name]]
        assert bits(pruned) == bytes(4 * pruned.numel()), f"{name}: +0.0 and nothing else"
    assert same_bytes(
        weights_of(model), {name: masked.snapshots[STEPS].model[name] for name in weights_of(model)}
    )


def test_a_learned_mask_is_the_best_epochs_like_its_weights(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_epoch = STOPPED.without_stopping()
    learned = LearnedMask(second_optimizer=False)
    state = run(make_model(folder), data, first_epoch, sparsity=learned, snapshots=(STEPS,)).snapshots[STEPS]
    result = run(
        make_model(folder),
        data,
        STOPPED,
        sparsity=LearnedMask(second_optimizer=False),
        stopping=scripted(monkeypatch, dev, (70, 60)),
    )
    assert result.mask is not None
    assert learned.detach() != result.mask, "the mask of the last epoch is another one"
    for name in result.mask.names:
        assert torch.equal(result.mask[name], state.sparsity[f"scores.{name}"] >= 0), name


def _interrupted(
    stop: int, model: Any, data: Encoded, checkpoints: Path, stopping: Stopping | None, **settings: Any
) -> None:
    recipe = STOPPED if stopping else STOPPED.without_stopping()

    def stops(step: int, total: int, seconds: float) -> None:
        if step == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(
            model,
            data,
            recipe,
            checkpoint_folder=checkpoints,
            progress=stops,
            stopping=stopping,
            **settings,
        )


@pytest.mark.parametrize(
    "stops", [(3,), (7,), (10,), (14,), (17,), (21,), (6, 7, 8, 14, 20)], ids=lambda stops: f"{stops}"
)
def test_interrupted_anywhere_it_stops_where_the_undisturbed_one_does(
    stops: tuple[int, ...],
    folder: Path,
    data: Encoded,
    dev: Encoded,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Best after 14 steps, over after 21; after each stop a process begins that knows nothing but the checkpoint."""
    script = (60.0, 70.0, 65.0, 99.0, 99.0)
    undisturbed = make_model(folder)
    expected = run(undisturbed, data, STOPPED, stopping=scripted(monkeypatch, dev, script))
    for stop in stops:
        _interrupted(stop, make_model(folder), data, tmp_path, scripted(monkeypatch, dev, script))
    model, steps = make_model(folder, head_seed=5), []
    result = run(
        model,
        data,
        STOPPED,
        checkpoint_folder=tmp_path,
        progress=lambda step, *_: steps.append(step),
        stopping=scripted(monkeypatch, dev, script),
    )
    assert steps == list(range(stops[-1] + 1, 22)), "finished steps are not done again, nor any after the end"
    assert same_bytes(weights_of(model), weights_of(undisturbed))
    assert _all_but_seconds(result) == _all_but_seconds(expected)


def _all_but_seconds(result: TrainingResult) -> list[Any]:
    return [result.steps, result.examples, result.log, result.epochs, result.best_epoch]


def test_a_checkpoint_holds_the_best_weights_and_one_of_a_whole_training_does_not(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Checkpoints of trainings without early stopping stay what they were, and so do snapshots."""

    def contents(folder: str) -> set[str]:
        return {path.name for path in (tmp_path / folder).iterdir()}

    parts = {f"{part}.safetensors" for part in ("model", "optimizer", "sparsity", "history")}
    whole = {"manifest.json", "state.json", *parts}
    stopping = scripted(monkeypatch, dev, (60,))
    _interrupted(9, make_model(folder), data, tmp_path / "stopped", stopping, snapshots=(8,))
    _interrupted(9, make_model(folder), data, tmp_path / "whole", None, snapshots=(8,))
    for name in ("stopped", "whole"):
        assert contents(name) == {"snapshot-0000000008", "step-0000000009"}
        assert contents(f"{name}/snapshot-0000000008") == whole
    assert contents("whole/step-0000000009") == whole
    assert contents("stopped/step-0000000009") == {*whole, "stopping.safetensors"}


def test_a_damaged_best_epoch_is_set_aside_with_its_checkpoint(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = (60.0, 70.0, 65.0)
    undisturbed = make_model(folder)
    run(undisturbed, data, STOPPED, stopping=scripted(monkeypatch, dev, script))
    for stop in (9, 18):
        _interrupted(stop, make_model(folder), data, tmp_path, scripted(monkeypatch, dev, script))
    damaged = tmp_path / "step-0000000018" / "stopping.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(bytes(content))
    model = make_model(folder)
    with pytest.warns(UserWarning, match="set aside"):
        run(model, data, STOPPED, checkpoint_folder=tmp_path, stopping=scripted(monkeypatch, dev, script))
    assert same_bytes(weights_of(model), weights_of(undisturbed))


def test_from_a_later_step_only_the_epochs_that_end_after_it_are_scored(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = scripted(monkeypatch, dev, (70, 60))
    result = run(make_model(folder), data, STOPPED, first_step=10, stopping=stopping)
    assert [(each.epoch, each.step) for each in result.epochs] == [(2, 14), (3, 21)]
    assert (result.steps, result.first_step, result.best_epoch) == (21, 10, 2)


def test_a_training_without_a_step_scores_no_epoch(folder: Path, data: Encoded, dev: Encoded) -> None:
    model = make_model(folder)
    before = weights_of(model)
    result = run(model, data, STOPPED, first_step=35, stopping=make_stopping(dev))
    assert (result.epochs, result.best_epoch) == ((), None)
    assert same_bytes(weights_of(model), before)


def test_a_stopping_knows_nothing_of_the_training_before(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = scripted(monkeypatch, dev, (70, 60))
    results = [run(make_model(folder), data, STOPPED, stopping=stopping) for _ in range(2)]
    assert _all_but_seconds(results[0]) == _all_but_seconds(results[1])


def test_a_state_that_somebody_waits_for_is_not_missing_in_silence(
    folder: Path, data: Encoded, dev: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RecipeError, match="no state of step 20") as caught:
        run(
            make_model(folder),
            data,
            STOPPED,
            snapshots=(4, 20),
            stopping=scripted(monkeypatch, dev, (70, 60)),
        )
    assert caught.value.todo


class _Spoiled(Dense):
    """Makes the gradients of the step after the third infinite."""

    def attach(self, model: Any) -> list[dict[str, Any]]:
        self.weight = next(iter(model.parameters()))
        return []

    def before_step(self, step: int, batch: Any) -> None:
        self.step = step

    def before_clip(self) -> None:
        if self.step == 3:
            self.weight.grad.fill_(float("inf"))


def test_a_diverged_training_is_told_by_its_step_before_it_is_scored(
    folder: Path, data: Encoded, dev: Encoded
) -> None:
    with pytest.raises(TrainingError, match="diverged") as caught:
        run(make_model(folder), data, STOPPED, sparsity=_Spoiled(), stopping=make_stopping(dev))
    assert caught.value.where == "step 3"


def test_recipe_and_stopping_must_agree(folder: Path, data: Encoded, dev: Encoded) -> None:
    for recipe, stopping in ((STOPPED, None), (RECIPE, make_stopping(dev))):
        with pytest.raises(RecipeError, match="early stopping takes both"):
            run(make_model(folder), data, recipe, stopping=stopping)


def test_several_processes_and_secret_labels_are_refused(dev: Encoded) -> None:
    with pytest.raises(RecipeError, match="on one process") as caught:
        Stopping(STOPPED, dev, ("accuracy",), Numerics(world_size=2))
    assert caught.value.where == "numerics.world_size"
    with pytest.raises(DataError, match="no labels"):
        Stopping(STOPPED, replace(dev, targets=None), ("accuracy",), NUMERICS)
