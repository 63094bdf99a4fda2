"""The engine: nothing twice, nothing lost, dropped weights recomputed to the recorded bytes."""

from __future__ import annotations

import multiprocessing

import pytest
from tests.engine.toy_steps import number_step, total_step

from tombola.engine.inline import run
from tombola.engine.pending import pending
from tombola.engine.readers import drop, reading
from tombola.errors import StoreError
from tombola.plan.graph import Graph
from tombola.plan.step import Step


def test_runs_inputs_first_and_nothing_twice(store, toys):
    wanted = total_step(number_step(2), number_step(3))
    run(Graph((wanted,)), store)
    assert store.read_json(wanted.out("value.json")) == {"value": 5.0}
    assert toys == ["number 2", "number 3", "total"]
    run(Graph((wanted,)), store)
    assert len(toys) == 3
    assert pending(Graph((wanted,)), store) == {}


def test_transient_outputs_are_dropped_when_nobody_waits_and_leave_their_hash(store):
    part = number_step(2)
    run(Graph((total_step(part),)), store)
    done = store.run(part.identity)
    assert done is not None
    assert not done.has("weights.safetensors")
    assert len(done.outputs["weights.safetensors"].sha256) == 64
    assert done.has("value.json")


def test_a_dropped_output_is_recomputed_when_a_new_step_needs_it(store, toys):
    part = number_step(2)
    run(Graph((total_step(part),)), store)
    toys.clear()
    other = total_step(part, number_step(5))
    run(Graph((other,)), store)
    assert store.read_json(other.out("value.json")) == {"value": 7.0}
    assert toys == ["number 2", "number 5", "total"]


def test_a_result_alone_does_not_make_the_weights(store):
    part = number_step(4)
    run(Graph((part,)), store)
    done = store.run(part.identity)
    assert done is not None
    assert set(done.outputs) == {"value.json"}


def test_outputs_asked_for_stay(store):
    part = number_step(4)
    run(Graph((total_step(part),), outputs=(part.out("weights.safetensors"),)), store)
    assert store.path(part.out("weights.safetensors")).is_file()


def test_what_a_killed_process_did_not_drop_is_dropped_by_the_next(store):
    part = number_step(4)
    reading = total_step(part)
    run(Graph((reading,), outputs=(part.out("weights.safetensors"),)), store)
    assert store.path(part.out("weights.safetensors")).is_file()
    run(Graph((reading,)), store)
    done = store.run(part.identity)
    assert done is not None
    assert not done.has("weights.safetensors")


def test_what_another_process_still_reads_is_not_dropped(store):
    part = number_step(4)
    weights = part.out("weights.safetensors")
    run(Graph((), outputs=(weights,)), store)
    context = multiprocessing.get_context("fork")
    announced, finish = context.Event(), context.Event()

    def read_slowly() -> None:
        with reading(store, [(part.identity, "weights.safetensors")]):
            announced.set()
            finish.wait()

    process = context.Process(target=read_slowly)
    process.start()
    announced.wait()
    drop(store, (part.identity, "weights.safetensors"))
    assert store.path(weights).is_file()
    process.kill()
    process.join()
    drop(store, (part.identity, "weights.safetensors"))
    assert not (store.folder(part.identity) / "weights.safetensors").exists(), "a dead reader holds nothing"


def test_inputs_are_not_made_again_for_a_step_that_another_process_has_finished(store, toys, monkeypatch):
    """What was planned before the other finished is looked at again when its turn comes."""
    first, second = total_step(number_step(1)), total_step(number_step(2))
    graph = Graph((first, second))
    from tombola.engine import performing

    former = performing._execute

    def meanwhile(work, *arguments):
        seconds = former(work, *arguments)
        if work.identity == first.identity:
            # The other process: finishes `second`, and drops the weights it read.
            monkeypatch.setattr(performing, "_execute", former)
            run(Graph((second,)), store)
            toys.append("the other is done")
        return seconds

    monkeypatch.setattr(performing, "_execute", meanwhile)
    run(graph, store)
    assert toys == ["number 1", "total", "number 2", "total", "the other is done"]


def test_a_recomputation_with_other_bytes_is_refused(store):
    part = Step("fickle", 1, {})
    run(Graph((part,)), store)
    with pytest.raises(StoreError, match=r"other bytes for value\.json"):
        run(Graph((part,), outputs=(part.out("weights.safetensors"),)), store)
    assert store.read_json(part.out("value.json")) == {"value": 1}


def test_another_version_of_a_step_is_refused(store):
    with pytest.raises(StoreError, match="version 9"):
        run(Graph((Step("number", 9, {"value": 1}),)), store)


def test_a_step_that_fails_leaves_nothing_that_looks_done(store, monkeypatch, toys):
    from tests.engine import toy_steps

    from tombola.plan.steps import StepKind

    def failing(parameters, inputs, sources, work):
        work.write_json("value.json", {"value": 1})
        raise RuntimeError("in the middle")

    monkeypatch.setitem(toy_steps.TOYS, "number", StepKind(1, failing))
    part = number_step(1)
    with pytest.raises(RuntimeError, match="in the middle"):
        run(Graph((part,)), store)
    assert store.run(part.identity) is None
    monkeypatch.undo()


def _race(root: str, barrier: object) -> None:
    from tests.engine import toy_steps

    from tombola.engine import inline, performing
    from tombola.engine.store import Store

    performing.STEPS = toy_steps.TOYS  # type: ignore[assignment]
    barrier.wait()  # type: ignore[attr-defined]
    inline.run(Graph(tuple(number_step(value) for value in range(40))), Store(root))
    with open(f"{root}/ran", "a") as file:
        file.write("".join(f"{name}\n" for name in toy_steps.RUNS))


def test_two_processes_on_one_store_never_run_a_step_twice(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    (tmp_path / "store").mkdir()
    processes = [context.Process(target=_race, args=(str(tmp_path / "store"), barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    ran = (tmp_path / "store" / "ran").read_text().split("\n")[:-1]
    assert sorted(ran) == sorted(f"number {value}" for value in range(40))
