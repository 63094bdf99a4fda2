"""What every step computes on tiny input, written out: whoever changes it must change the step's version too.

Rounded so that another CPU or torch gives the same; a changed algorithm does not.
"""

from __future__ import annotations

import pytest

from tombola import api
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.finding.search import Search
from tombola.masks.packing import load_mask
from tombola.plan.graph import Graph
from tombola.plan.steps import STEPS
from tombola.plan.trainings import ticket_import
from tombola.tasks.task import DataOptions

VERSIONS = {
    **{"train": 3, "prune": 1, "random_mask": 1, "import_ticket": 1},
    **{"importance": 1, "structure": 1, "random_structure": 1, "choose_level": 1},
    **{"decompose": 1, "predict": 1},
}


def planned(tiny_bert, sentences, method: str) -> Search:
    return api.plan_find(
        str(tiny_bert),
        method=method,
        sparsities=(0.3,),
        seeds=(0,),
        schedule="one_shot" if method == "imp" else "linear",
        data=DataOptions(data=sentences, text="text", label="label"),
        recipe=api.make_recipe(None, epochs=2, batch_size=16, learning_rate=1e-2, max_length=16),
        numerics=api.make_numerics(threads=1, device="cpu"),
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("golden"))


def test_every_step_is_covered():
    assert {name: kind.version for name, kind in STEPS.items()} == VERSIONS


def test_train(store, tiny_bert, sentences):
    step = planned(tiny_bert, sentences, "imp").dense[0]
    run(Graph((step,)), store)
    metrics = store.read_json(step.out("metrics.json"))
    assert metrics["steps"] == GOLDEN["steps"]
    assert metrics["dev"]["accuracy"] == pytest.approx(GOLDEN["accuracy"], abs=5.1)  # one example
    assert metrics["loss"] == pytest.approx(GOLDEN["loss"], abs=2e-3)
    assert metrics["sparsity"]["zeros"] == 0


def test_prune(store, tiny_bert, sentences):
    step = planned(tiny_bert, sentences, "magnitude").candidates[0.3][0].mask.step
    run(Graph((step,)), store)
    assert store.read_json(step.out("mask.json"))["digest"] == GOLDEN["magnitude"]


def test_random_mask(store, tiny_bert, sentences):
    step = planned(tiny_bert, sentences, "random").candidates[0.3][0].mask.step
    run(Graph((step,)), store)
    assert store.read_json(step.out("mask.json"))["digest"] == GOLDEN["random"]


def test_import_ticket(store, tiny_bert, sentences, tmp_path):
    search = planned(tiny_bert, sentences, "magnitude")
    (ticket,) = api.run_search(search, store.root)
    ticket.save_pretrained(tmp_path / "ticket")
    step = ticket_import(search.problem, ticket=ticket.identity, folder=str(tmp_path / "ticket"))
    run(Graph((step,)), store)
    assert load_mask(store.path(step.out("mask.safetensors"))) == ticket.mask
    assert store.read_json(step.out("mask.json"))["digest"] == GOLDEN["magnitude"]


GOLDEN = {
    "steps": 24,
    "accuracy": 90.0,
    "loss": 0.5529,
    "magnitude": "92dbe4fd32020e436478377ba4f824516e6b68beba84085d5c142d67393d0561",
    "random": "cbcab3314c26c68d19317c885f54173538e874f5e78a90de14c599dda40271a0",
}
