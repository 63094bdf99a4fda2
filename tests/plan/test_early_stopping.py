"""The training step with early stopping: what it writes of its epochs, and what it leaves as it was."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
import pytest

from tombola import api, files
from tombola.engine.estimate import estimate
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.plan.graph import Graph
from tombola.plan.materials import encoded_split
from tombola.plan.step import Step
from tombola.plan.train_step import starting_model, trained_model
from tombola.tasks.metrics import score
from tombola.tasks.splitting import selection_share
from tombola.tasks.task import DataOptions
from tombola.training.recipe import Recipe

STOPPED = api.make_recipe(
    None, epochs=6, batch_size=16, learning_rate=1e-2, max_length=16, early_stopping=True, stop_share=0.3
)


def dense_step(tiny_bert, sentences, recipe: Recipe) -> Step:
    return api.plan_find(
        str(tiny_bert),
        method="magnitude",
        sparsities=(0.3,),
        data=DataOptions(data=sentences, text="text", label="label"),
        recipe=recipe,
        numerics=api.make_numerics(threads=1, device="cpu"),
    ).dense[0]


class Trained:
    """One training of the step, with its metrics and predictions."""

    def __init__(self, folder: Any, step: Step) -> None:
        self.store, self.step = Store(folder), step
        run(Graph((step,), (step.out("weights.safetensors"),)), self.store)
        self.metrics = self.store.read_json(step.out("metrics.json"))
        self.logits = files.read_tensors(self.store.path(step.out("predictions.safetensors")))["dev"].numpy()

    def sha256(self, output: str) -> str:
        found = self.store.run(self.step.identity)
        assert found is not None
        return found.outputs[output].sha256


@pytest.fixture(scope="module")
def stopped(tiny_bert, sentences, tmp_path_factory) -> Trained:
    return Trained(tmp_path_factory.mktemp("stopped"), dense_step(tiny_bert, sentences, STOPPED))


def test_every_epoch_and_the_best_of_them_are_written(stopped):
    epochs, steps_an_epoch = stopped.metrics["epochs"], 12
    scores = [epoch["score"] for epoch in epochs]
    best = scores.index(max(scores)) + 1
    assert 1 < len(epochs) < 6, "it stops early in this test"
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, len(epochs) + 1))
    assert stopped.metrics["best_epoch"] == best == len(epochs) - 1
    assert stopped.metrics["steps"] == steps_an_epoch * len(epochs) == epochs[-1]["steps"]
    assert scores == [fmean(epoch["scores"].values()) for epoch in epochs]
    assert len((stopped.store.path(stopped.step.out("metrics.jsonl"))).read_text().splitlines()) == 1


def test_dev_is_scored_whole_and_apart_by_what_chose_and_what_did_not(stopped):
    """Trap 16: the rest has no part in the choice."""
    targets = encoded_split(stopped.step.sources, "dev", 16).targets
    assert targets is not None
    share, rest = selection_share(len(targets), 0.3, 0)
    for name, rows in (("dev", np.arange(len(targets))), ("dev_share", share), ("dev_rest", rest)):
        assert stopped.metrics[name] == score(["accuracy"], stopped.logits[rows], targets[rows]), name
    best = stopped.metrics["epochs"][stopped.metrics["best_epoch"] - 1]
    assert stopped.metrics["dev_share"] == best["scores"], "the predictions are the best epoch's"


def test_the_weights_and_predictions_are_those_of_a_training_that_ends_with_the_best_epoch(
    stopped, tiny_bert, sentences, tmp_path
):
    """The schedule is the whole recipe's: the state after that epoch of the whole training, and no other."""
    whole = dense_step(tiny_bert, sentences, STOPPED.without_stopping())
    end = 12 * stopped.metrics["best_epoch"]
    state = whole.out(f"state-{end}.safetensors")
    store = Store(tmp_path)
    run(Graph((), (state,)), store)
    expected = files.read_tensors(store.path(state))
    weights = stopped.store.path(stopped.step.out("weights.safetensors"))
    live = dict(trained_model(stopped.step, weights).named_parameters())
    for name, weight in live.items():
        assert weight.detach().numpy().tobytes() == expected[f"model/{name}"].numpy().tobytes(), name
    metrics = store.read_json(whole.out("metrics.json"))
    assert set(metrics) == {"dev", "steps", "loss", "sparsity"}, "without early stopping nothing is added"
    assert metrics["steps"] == 72


def test_the_heads_dropout_is_the_recipes(tiny_bert, sentences):
    plain = starting_model_of(dense_step(tiny_bert, sentences, STOPPED.without_stopping()))
    for dropout in (0.0, 0.3):
        recipe = STOPPED.without_stopping().with_(head_dropout=dropout)
        model = starting_model_of(dense_step(tiny_bert, sentences, recipe))
        assert model.dropout.p == model.config.classifier_dropout == dropout
        assert model.bert.encoder.layer[0].output.dropout.p == plain.bert.encoder.layer[0].output.dropout.p
    assert plain.dropout.p == plain.config.hidden_dropout_prob == 0.1


def starting_model_of(step: Step) -> Any:
    return starting_model(step.parameters, {}, step.sources)


def test_a_trained_model_keeps_its_heads_dropout(tiny_bert, sentences, tmp_path):
    recipe = STOPPED.without_stopping().with_(epochs=1, head_dropout=0.3)
    done = Trained(tmp_path, dense_step(tiny_bert, sentences, recipe))
    model: Any = trained_model(done.step, done.store.path(done.step.out("weights.safetensors")))
    assert model.config.classifier_dropout == 0.3


def test_its_time_can_be_estimated(tiny_bert, sentences, tmp_path):
    """The probe of a few steps needs nothing to stop by."""
    told = estimate(Graph((dense_step(tiny_bert, sentences, STOPPED),)), Store(tmp_path))
    assert "probe" in told["seconds_from"]


def test_stopping_is_part_of_what_a_training_is(tiny_bert, sentences):
    whole = STOPPED.without_stopping()
    recipes = [
        whole,
        STOPPED,
        STOPPED.with_(patience=2),
        STOPPED.with_(stop_share=0.2),
        STOPPED.with_(stop_seed=1),
        whole.with_(head_dropout=0.1),
    ]
    assert len({dense_step(tiny_bert, sentences, recipe).identity for recipe in recipes}) == len(recipes)
