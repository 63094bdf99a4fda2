"""Where a training starts: head, weights and state by seed, purpose and kind of start (SPEC 2.2, traps 1 and 2)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.plan.test_golden_steps import planned

from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.models.anatomy import backbone_parameters, head_parameters
from tombola.models.build import pretrained_state
from tombola.models.resolve import resolve
from tombola.plan.graph import Graph
from tombola.plan.train_step import starting_model
from tombola.plan.trainings import Start, dense_training, training
from tombola.training import sparsity
from tombola.verifying.controls import CONTROLS


def model_of(step):
    return starting_model(step.parameters, {}, step.sources)


def head(model):
    return {name: weight.detach().clone() for name, weight in head_parameters(model).items()}


def equal(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def search(tiny_bert, sentences):
    return planned(tiny_bert, sentences, "imp")


def test_every_round_of_a_search_starts_with_the_head_of_its_seed(search):
    """Trap 2: γ is rewound with θ."""
    dense = head(model_of(search.dense[0]))
    mask = search.candidates[0.3][0].mask
    again = training(search.problem, seed=0, purpose="search", start=Start(), mask=mask, label="")
    # With its mask at hand, as the engine gives it: nothing about a round may change the draw.
    masked = starting_model(again.parameters, {"mask": Path("not-read")}, again.sources)
    assert equal(dense, head(masked))


def test_another_seed_or_an_evaluation_draws_another_head(search):
    dense = head(model_of(search.dense[0]))
    assert not equal(dense, head(model_of(dense_training(search.problem, 1))))
    assert not equal(dense, head(model_of(search.retrained[0.3][0])))


def test_the_backbone_is_theta0_bitwise_and_training_leaves_theta0_alone(search, tiny_bert, tmp_path):
    """Trap 1: the snapshot everything is rewound to never aliases what is trained."""
    before = pretrained_state(resolve(str(tiny_bert)))
    run(Graph((search.dense[0],)), Store(tmp_path))
    backbone = backbone_parameters(model_of(search.dense[0]))
    assert all(torch.equal(weight, before[name]) for name, weight in backbone.items())


def test_the_sparsity_told_is_counted_in_the_trained_weights(search, tmp_path, monkeypatch):
    """Trap 10: a mask that never reached the weights is not what is reported."""
    store = Store(tmp_path)
    ticket = search.retrained[0.3][0]
    monkeypatch.setattr(sparsity, "FixedMask", lambda mask: sparsity.Dense())
    run(Graph((ticket,)), store)
    mask = store.read_json(ticket.inputs["mask"].step.out("mask.json"))
    told = store.read_json(ticket.out("metrics.json"))["sparsity"]
    assert mask["sparsity"] == pytest.approx(0.3, abs=0.01)
    assert told["size"] == mask["size"]
    assert told["share"] < 0.01


def test_controls_start_elsewhere_but_with_the_same_head(search):
    ticket = search.candidates[0.3][0]
    plain = model_of(search.retrained[0.3][0])
    theta0 = {name: weight.detach().clone() for name, weight in backbone_parameters(plain).items()}
    matrix = "encoder.layer.0.attention.self.query.weight"
    for name in ("reinit", "shuffle", "shuffle-within"):
        start = CONTROLS[name](search.problem, ticket, 10, 0).start
        step = training(search.problem, seed=0, purpose="retrain", start=start, mask=None, label="")
        control = model_of(step)
        assert equal(head(plain), head(control)), name
        assert not torch.equal(backbone_parameters(control)[matrix], theta0[matrix]), name
        embeddings = torch.equal(
            backbone_parameters(control)["embeddings.word_embeddings.weight"],
            theta0["embeddings.word_embeddings.weight"],
        )
        assert embeddings == (name != "reinit"), "only re-initialisation touches the embeddings"


def test_going_on_from_theta_i_equals_the_uninterrupted_training(search, tiny_bert, sentences, tmp_path):
    """θi comes with head, optimizer and schedule of step i: without a mask the rest is the dense run, byte for byte."""
    store = Store(tmp_path)
    dense = search.dense[0]
    state, weights = dense.out("state-12.safetensors"), dense.out("weights.safetensors")
    run(Graph((), (state, weights)), store)
    start = Start("state", ref=state, head="kept", first_step=12)
    rest = training(search.problem, seed=0, purpose="search", start=start, mask=None, label="the second half")
    run(Graph((), (rest.out("weights.safetensors"),)), store)
    whole, continued = store.run(dense.identity), store.run(rest.identity)
    assert whole is not None
    assert continued is not None
    assert whole.outputs["weights.safetensors"].sha256 == continued.outputs["weights.safetensors"].sha256
    assert (
        whole.outputs["predictions.safetensors"].sha256 == continued.outputs["predictions.safetensors"].sha256
    )
