"""What runs next, what a failure costs, and what is planned again: with an executor that does as it is told."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engine import toy_steps
from tests.engine.toy_steps import number_step, total_step

from tombola.engine import scheduling
from tombola.engine.inline import run
from tombola.engine.performing import Failure, perform
from tombola.engine.protocol import Event, Silent
from tombola.engine.readers import drop, read_by_others
from tombola.engine.scheduling import Policy, bring_about
from tombola.engine.store import Store
from tombola.engine.work import Work
from tombola.errors import StoreError
from tombola.plan.graph import Graph
from tombola.plan.step import Step
from tombola.plan.steps import StepKind

WEIGHTS = "weights.safetensors"
DIED = Failure("StoreError", "its worker process died", again=True)
WRONG = Failure("ValueError", "the step is wrong")


class Obedient:
    """Performs one submitted step a wait, the oldest first, or lets ``answers`` say what became of it instead."""

    def __init__(self, store: Store, slots: int = 1, **answers: list[Failure | str | None]) -> None:
        self.store, self.slots, self.answers = store, slots, answers
        self.submitted: list[str] = []
        self.most = self.stops = 0
        self._waiting: list[Work] = []

    def start(self, hear: Callable[[Event], None]) -> None:
        self._hear = hear

    def submit(self, work: Work) -> None:
        self.submitted.append(work.label or work.kind)
        self._waiting.append(work)
        self.most = max(self.most, len(self._waiting))

    def wait(self, timeout: float) -> None:
        work = self._waiting.pop(0)
        answers = self.answers.get((work.label or work.kind).replace(" ", "_"), [])
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Failure):
            self._hear(Event(work.identity, "failed", failure=answer))
        elif answer == "busy":
            self._hear(Event(work.identity, "busy"))
        else:
            self._hear(Event(work.identity, "began"))
            assert perform(work, self.store) is not None
            self._hear(Event(work.identity, "done", seconds=0.1))

    def stop(self) -> None:
        self.stops += 1


def costly(label: str, cost: int, *before: Step) -> Step:
    inputs = {f"in{number}": step.out(WEIGHTS) for number, step in enumerate(before)}
    return Step("number", 1, {"value": cost, "label": label}, inputs, label=label, cost=cost)


# -- the order --------------------------------------------------------------------------------------------------


def test_the_longest_chain_begins_first(store):
    short = costly("short", 5)
    long = costly("third", 3, costly("second", 3, costly("first", 3)))
    executor = Obedient(store)
    bring_about(Graph((short, long)), store, executor)
    assert executor.submitted == ["first", "second", "short", "third"]


def test_equal_chains_run_in_the_order_they_were_planned(store):
    executor = Obedient(store)
    bring_about(Graph(tuple(costly(name, 1) for name in "cab")), store, executor)
    assert executor.submitted == ["c", "a", "b"]


def test_what_costs_nothing_and_lets_weights_go_runs_at_once(store):
    trained, other = costly("trained", 2), costly("other", 9)
    executor = Obedient(store)
    bring_about(Graph((total_step(trained), other, number_step(1))), store, executor)
    assert executor.submitted == ["number 1", "other", "trained", "total"]
    executor = Obedient(Store(store.root / "again"))
    bring_about(Graph((costly("next", 5, trained), total_step(trained), other)), executor.store, executor)
    assert executor.submitted == ["other", "trained", "total", "next"]


def test_as_many_as_there_are_slots_and_never_more(store):
    executor = Obedient(store, slots=3)
    bring_about(Graph(tuple(costly(str(number), 1) for number in range(7))), store, executor)
    assert executor.most == 3
    assert len(executor.submitted) == 7


# -- failures ---------------------------------------------------------------------------------------------------


def test_the_first_failure_ends_everything_and_stops_the_executor_once(store):
    executor = Obedient(store, number_1=[WRONG])
    with pytest.raises(RuntimeError, match="ValueError: the step is wrong"):
        bring_about(Graph((number_step(1), number_step(2))), store, executor)
    assert executor.submitted == ["number 1"]
    assert executor.stops == 1


def test_going_on_a_failure_costs_its_descendants_alone(store):
    one, two = number_step(1), number_step(2)
    graph = Graph((total_step(total_step(one)), total_step(one, two), two))
    executor = Obedient(store, number_1=[WRONG])
    summary = bring_about(graph, store, executor, policy=Policy(keep_going=True))
    assert [entry.step for entry in summary.failed] == [one]
    assert set(summary.blocked) == {total_step(one), total_step(total_step(one)), total_step(one, two)}
    assert (summary.ran, summary.complete, executor.stops) == (1, False, 1)
    assert store.is_there(two.identity)


def test_dead_processes_are_tried_again_as_often_as_they_may_be(store):
    executor = Obedient(store, number_1=[DIED, DIED])
    assert bring_about(Graph((number_step(1),)), store, executor, policy=Policy(retries=2)).complete
    assert executor.submitted == ["number 1"] * 3
    executor = Obedient(store, number_2=[DIED] * 3)
    with pytest.raises(StoreError, match="died"):
        bring_about(Graph((number_step(2),)), store, executor, policy=Policy(retries=2))


def test_a_step_that_somebody_else_is_at_is_looked_at_later(store, monkeypatch):
    monkeypatch.setattr(scheduling, "SECONDS_BUSY", 0.01)
    executor = Obedient(store, number_1=["busy", "busy", "busy"])
    started = time.monotonic()
    summary = bring_about(Graph((number_step(1), number_step(2))), store, executor, policy=Policy(retries=0))
    assert executor.submitted == ["number 1", "number 2", "number 1", "number 1", "number 1"]
    assert summary.ran == 2
    assert time.monotonic() - started < 5


# -- planned again ----------------------------------------------------------------------------------------------


def test_an_input_that_is_damaged_when_it_is_read_is_made_again(store, toys):
    one, two = number_step(1), number_step(2)
    asked = Graph((), outputs=(one.out(WEIGHTS), two.out(WEIGHTS)))
    run(asked, store)
    path = store.folder(one.identity) / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    toys.clear()
    with pytest.warns(UserWarning, match="is damaged"):
        summary = run(asked + Graph((total_step(one, two), total_step(two))), Store(store.root))
    assert summary.complete
    assert sorted(toys) == ["number 1", "total", "total"]
    assert store.read_json(total_step(one, two).out("value.json")) == {"value": 3.0}


def test_what_is_damaged_again_and_again_is_given_up(store, monkeypatch):
    """A disk that spoils whatever it is given must not be fed for ever."""

    def spoiling(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
        toy_steps.number(parameters, inputs, sources, work)
        spoiled.append(work.staging)

    former, spoiled = Store.publish, []

    def publish(self, work, staging, outputs, environment):
        done = former(self, work, staging, outputs, environment)
        path = self.folder(work.identity) / WEIGHTS
        if path.exists():
            path.write_bytes(path.read_bytes()[:-1] + b"!")
        return done

    monkeypatch.setitem(toy_steps.TOYS, "number", StepKind(1, spoiling))
    monkeypatch.setattr(Store, "publish", publish)
    with pytest.warns(UserWarning, match="is damaged"), pytest.raises(StoreError, match="is damaged"):
        run(Graph((total_step(number_step(1)),)), store)
    assert len(spoiled) == scheduling.MOST_DAMAGED + 1


def test_without_memory_a_stand_in_runs_and_stays(store, monkeypatch):
    def hungry(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
        if (parameters["numerics"]["micro_batch"] or 8) > 2:
            raise MemoryError
        toy_steps.number({"value": parameters["numerics"]["micro_batch"]}, inputs, sources, work)

    monkeypatch.setitem(toy_steps.TOYS, "hungry", StepKind(1, hungry))
    step = Step("hungry", 1, {"recipe": {"batch_size": 8}, "numerics": {"micro_batch": None}})
    bystander = number_step(5)
    graph = Graph((total_step(step), bystander))
    summary = run(graph, store)
    assert summary.stands_in is not None
    smaller = summary.stands_in[step.identity]
    assert store.read_json(summary.stands_in[total_step(step).identity].out("value.json")) == {"value": 2.0}
    finished = store.run(smaller.identity)
    assert finished is not None
    assert finished.substitutes == step.identity
    assert not store.is_there(step.identity)
    again = run(graph, store)
    assert (again.ran, again.complete, again.stands_in) == (0, True, summary.stands_in)


def test_without_memory_for_one_example_it_is_an_error(store, monkeypatch):
    def hopeless(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setitem(toy_steps.TOYS, "hungry", StepKind(1, hopeless))
    step = Step("hungry", 1, {"recipe": {"batch_size": 4}, "numerics": {"micro_batch": None}})
    summary = run(Graph((step, number_step(1))), store, policy=Policy(keep_going=True))
    assert [entry.failure.memory for entry in summary.failed] == [True]
    assert store.is_there(number_step(1).identity)
    from tombola.errors import TrainingError

    with pytest.raises(TrainingError, match="memory of the device was not enough"):
        run(Graph((step,)), store)


# -- with others on the same store ------------------------------------------------------------------------------


def test_what_is_read_and_what_was_asked_for_is_announced_while_it_runs(store):
    one, two = number_step(1), number_step(2)
    heard = []

    class Asking(Silent):
        def began(self, step: Step) -> None:
            import threading

            thread = threading.Thread(target=lambda: heard.append(read_by_others(Store(store.root))))
            thread.start()
            thread.join()

    run(Graph((total_step(one),), outputs=(two.out(WEIGHTS),)), store, reporter=Asking())
    assert heard == [{(one.identity, WEIGHTS), (two.identity, WEIGHTS)}] * 3
    assert list((store.root / "readers").iterdir()) == []


def test_what_was_dropped_between_two_looks_is_planned_and_announced_too(store, monkeypatch):
    """What makes it again may itself read something: nobody may drop that either."""
    start = costly("start", 1)
    middle = costly("middle", 1, start)
    end = total_step(middle)
    run(Graph((), outputs=(middle.out(WEIGHTS), start.out(WEIGHTS))), store)
    former, announced = scheduling.reading, []

    def meanwhile(store, outputs):
        announced.append(set(outputs))
        drop(store, (middle.identity, WEIGHTS))
        return former(store, outputs)

    monkeypatch.setattr(scheduling, "reading", meanwhile)
    run(Graph((end,)), store)
    assert announced == [{(middle.identity, WEIGHTS)}, {(start.identity, WEIGHTS)}]
    assert store.read_json(end.out("value.json")) == {"value": 1.0}


def test_a_finished_graph_is_told_without_touching_the_store(store, monkeypatch):
    graph = Graph((total_step(number_step(1)),))
    run(graph, store)

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(30, "Read-only file system")

    for name in ("replace", "rename", "write", "pwrite", "unlink", "rmdir", "utime"):
        monkeypatch.setattr(os, name, refused)
    told: Counter[str] = Counter()

    class Counting(Silent):
        def planned(self, pending: tuple[Step, ...], done: int) -> None:
            told["done"] += done
            assert pending == ()

    assert run(graph, Store(store.root), reporter=Counting()).complete
    assert told["done"] == 2
