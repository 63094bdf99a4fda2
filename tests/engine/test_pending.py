"""What is still to do, asked of the store; and the smaller micro-batches that stand in for steps without memory."""

from __future__ import annotations

import json

import pytest
from tests.engine.toy_steps import number_step, total_step

from tombola.engine.inline import run
from tombola.engine.pending import pending, substitute, substituted
from tombola.engine.store import Store
from tombola.errors import StoreError
from tombola.plan.graph import Graph
from tombola.plan.step import Step

WEIGHTS = "weights.safetensors"
NUMBER = number_step(1)
SUM = total_step(NUMBER)


def test_everything_is_pending_in_an_empty_store_and_nothing_in_a_full_one(store):
    graph = Graph((SUM,))
    assert pending(graph, store) == {SUM.identity: set(), NUMBER.identity: {WEIGHTS}}
    run(graph, store)
    assert pending(graph, store) == {}
    assert pending(graph, store, glance=True) == {}


def test_what_was_dropped_is_pending_only_if_somebody_waits(store):
    run(Graph((SUM,)), store)
    assert pending(Graph((NUMBER, SUM)), store) == {}
    other = total_step(NUMBER, NUMBER)
    assert pending(Graph((SUM, other)), store) == {other.identity: set(), NUMBER.identity: {WEIGHTS}}
    asked = Graph((), outputs=(NUMBER.out(WEIGHTS),))
    assert pending(asked, store) == pending(asked, store, glance=True) == {NUMBER.identity: {WEIGHTS}}


def test_a_glance_opens_nothing_and_a_look_finds_damage(store):
    run(Graph((SUM,)), store)
    (store.folder(SUM.identity) / "manifest.json").write_text("{")
    assert pending(Graph((SUM,)), store, glance=True) == {}
    with pytest.warns(UserWarning, match="damaged"):
        assert set(pending(Graph((SUM,)), store)) == {SUM.identity, NUMBER.identity}


def test_only_what_is_wanted_is_read(store, monkeypatch):
    run(Graph((SUM,)), store)
    looked_at = []
    former = Store.run
    monkeypatch.setattr(
        Store, "run", lambda self, identity: (looked_at.append(identity), former(self, identity))[1]
    )
    assert pending(Graph((SUM,)), store) == {}
    assert looked_at == [SUM.identity]


# -- stand-ins --------------------------------------------------------------------------------------------------


def hungry(batch_size: int, micro_batch: int | None = None) -> Step:
    numerics = {"recipe": {"batch_size": batch_size}, "numerics": {"micro_batch": micro_batch}}
    return Step("hungry", 1, numerics)


def test_a_stand_in_takes_half_as_much_at_a_time_and_is_noted(store):
    step = hungry(9)
    stands_in = substitute(step, store)
    assert stands_in == hungry(9, 4)
    note = json.loads((store.root / "substitutes" / f"{step.identity}.json").read_text())
    assert note == {"because": "out of memory with 9 examples at a time", "micro_batch": 4}
    assert substitute(hungry(9, 1), store) is None
    assert substitute(number_step(1), store) is None
    assert substitute(Step("measure", 1, {"numerics": {"micro_batch": 8}}), store) is None


def test_whatever_reads_a_stand_in_is_another_step_too(store):
    step = hungry(8)
    sums, bystander = total_step(step), number_step(3)
    assert substituted(Graph((sums,)), store) == (Graph((sums,)), {})
    substitute(step, store)
    substitute(hungry(8, 4), store)
    graph, stands_in = substituted(Graph((sums, bystander), outputs=(step.out(WEIGHTS),)), store)
    smaller = hungry(8, 2)
    assert stands_in == {step.identity: smaller, sums.identity: total_step(smaller)}
    assert graph.wanted == (total_step(smaller), bystander)
    assert graph.outputs == (smaller.out(WEIGHTS),)


@pytest.mark.parametrize(
    "note",
    [
        *("", "{", "[]", "7", "{}", '{"micro_batch": "4"}', '{"micro_batch": true}', '{"micro_batch": 0}'),
        # As many at a time as before, or more: it would stand in for itself for ever.
        *('{"micro_batch": 8}', '{"micro_batch": 80}', '{"micro_batch": -4}'),
    ],
)
def test_a_damaged_note_is_told_with_its_place_and_cure(store, note):
    step = hungry(8)
    path = store.root / "substitutes" / f"{step.identity}.json"
    path.write_text(note)
    with pytest.raises(StoreError, match="damaged") as error:
        substituted(Graph((step,)), store)
    assert error.value.where == str(path)
    assert "delete it" in error.value.todo
    path.unlink()
    assert substituted(Graph((step,)), store) == (Graph((step,)), {})


def test_a_deleted_folder_of_stand_ins_comes_back(store):
    (store.root / "substitutes").rmdir()
    assert substituted(Graph((hungry(8),)), store)[1] == {}
    assert substitute(hungry(8), store) is not None
    assert substituted(Graph((hungry(8),)), store)[1] != {}
