"""What a Ray worker does with a step, and what the engine makes of its answers and its death: without Ray running."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

import pytest
from tests.engine import orderly_toy
from tests.engine.orderly_toy import orderly_step
from tests.engine.preload_toys import broken_step
from tests.engine.toy_steps import number_step

from tombola.engine import performing, ray_step
from tombola.engine.performing import Failure
from tombola.engine.ray_step import PROGRESS, do_step
from tombola.engine.ray_tasks import Ray
from tombola.engine.work import Work
from tombola.errors import StoreError, UsageError
from tombola.plan.step import Step

pytest.importorskip("ray")


def order_for(store, step, mark="", **more):
    work = Work.of(step, ()).to_json()
    given = {"work": work, "root": str(store.root), "mark": mark, "token": "t", "preload": [], "folder": "."}
    return json.dumps({**given, **more})


# -- fast: what a worker does, without Ray ----------------------------------------------------------------------


@pytest.fixture
def steps_here(monkeypatch):
    monkeypatch.setattr(performing, "STEPS", orderly_toy.TOYS)


def test_a_worker_does_a_step_and_answers_in_json(store):
    answer = json.loads(do_step(order_for(store, number_step(3))))
    assert answer["finished"] > 0
    assert answer["warnings"] == []
    assert store.read_json(number_step(3).out("value.json")) == {"value": 3}


def test_an_interrupt_waits_for_the_end_of_the_step_within_a_training(store, monkeypatch):
    """There a checkpoint is written; an interrupt anywhere would leave half an optimizer step."""
    monkeypatch.setattr(performing, "STEPS", orderly_toy.TOYS)
    step = orderly_step()
    threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    assert json.loads(do_step(order_for(store, step))) == {"stopped": True, "warnings": []}
    assert time.monotonic() - started < 5
    state, last = (store.scratch(step.identity) / "last").read_text().split()
    assert state == "whole"
    note = json.loads((store.scratch(step.identity) / PROGRESS).read_text())
    assert note["token"] == "t"
    assert 0 < note["done"] <= int(last) < 50
    assert note["total"] == 100
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_errors_of_a_step_travel_as_failures(store, steps_here):
    answer = json.loads(do_step(order_for(store, broken_step())))
    failure = Failure(**answer["failed"])
    assert (failure.error, failure.what, failure.again) == ("ValueError", "this step is broken", True)
    assert "Traceback" in failure.trace


def test_a_worker_refuses_a_folder_that_is_not_the_same_store(store, monkeypatch):
    """The default store lies in the home folder: a node that does not share it has another one of that name."""
    monkeypatch.setattr(ray_step, "TIMES_TO_LOOK", 1)
    answer = json.loads(do_step(order_for(store, number_step(3), mark="ray-of-another-machine")))
    assert "not the store" in answer["unable"]
    assert list(store) == []


# -- fast: what the engine makes of answers and errors, with Ray made up ------------------------------------------


class MadeUp:
    """As much of Ray as an executor touches; every task comes to one ``end``."""

    def __init__(self, end: Any) -> None:
        self.end = end
        self.options_given: list[dict[str, Any]] = []

    def is_initialized(self):
        return True

    def nodes(self):
        return [
            {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 2.0}},
            {"Alive": False, "Resources": {"CPU": 64.0}},
        ]

    def remote(self, function):
        return self

    def options(self, **options):
        self.options_given.append(options)
        return MadeUpTask()

    def wait(self, waiting, **_):
        return list(waiting), []

    def get(self, reference):
        if isinstance(self.end, BaseException):
            raise self.end
        return json.dumps(self.end)

    def cancel(self, reference, force):
        pass


class MadeUpTask:
    def remote(self, order):
        assert isinstance(order, str)
        return object()


def heard_of(end, store, step=None, **more):
    engine = Ray(store.root, **more)
    made_up = engine._ray = MadeUp(end)
    events = []
    engine.start(events.append)
    try:
        engine.submit(Work.of(step or number_step(1), ()))
        engine.wait(0.1)
    finally:
        engine.stop()
    return events, engine, made_up


@pytest.mark.parametrize(
    "name", ["WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "TaskCancelledError"]
)
def test_deaths_are_tried_again_and_want_of_memory_is_told_as_such(store, name):
    import ray.exceptions

    death = getattr(ray.exceptions, name)
    (event,), *_ = heard_of(
        death("killed") if name in ("NodeDiedError", "OutOfMemoryError") else death(), store
    )
    assert event.what == "failed"
    memory = name == "OutOfMemoryError"
    assert (event.failure.memory, event.failure.again) == (memory, not memory)


def test_answers_become_events(store):
    assert [event.what for event in heard_of({"finished": 1.5, "began": True}, store)[0]] == ["began", "done"]
    assert [event.what for event in heard_of({"busy": True}, store)[0]] == ["busy"]
    with pytest.warns(UserWarning, match="was damaged"):
        heard_of({"finished": 1.5, "warnings": ["it was damaged"]}, store)
    with pytest.raises(StoreError, match="could not begin") as error:
        heard_of({"unable": "on node7: ModuleNotFoundError: tombola"}, store)
    assert "node7" in str(error.value)


def test_room_is_counted_on_living_nodes_and_gpus_are_for_steps_that_say_cuda(store):
    on_cuda = Step("number", 1, {"value": 1, "numerics": {"device": "cuda"}})
    done = {"finished": 1.0}
    assert heard_of(done, store)[1].slots == 4
    assert heard_of(done, store, threads=2)[1].slots == 2
    assert heard_of(done, store, workers=9)[1].slots == 9
    _, engine, made_up = heard_of(done, store, on_cuda, gpus=True)
    assert engine.slots == 2
    assert made_up.options_given[0]["num_gpus"] == 1
    assert heard_of(done, store, gpus=True)[2].options_given[0]["num_gpus"] == 0
    given = heard_of(done, store, threads=3)[2].options_given[0]
    assert (given["num_cpus"], given["max_retries"]) == (3, 0)
    assert given["runtime_env"]["env_vars"]["OMP_NUM_THREADS"] == "3"
    with pytest.raises(UsageError, match="8 CPUs"):
        heard_of(done, store, threads=8)


def test_steps_wait_for_a_node_and_say_so_once(store):
    engine = Ray(store.root, workers=1, address="a cluster that grows")
    made_up = engine._ray = MadeUp({"busy": True})
    made_up.nodes = list
    engine.start(lambda event: None)
    with pytest.warns(UserWarning, match="no node of this Ray has 1 CPU"):
        engine.wait(0.1)
    engine.wait(0.1)
    engine.stop()


def test_mistakes_are_said_before_anything_runs(store, monkeypatch):
    with pytest.raises(UsageError, match="0 workers"):
        Ray(store.root, workers=0)
    started = time.monotonic()
    with pytest.raises(UsageError, match="could not be reached"):
        Ray(store.root, "127.0.0.1:9").start(lambda event: None)
    with pytest.raises(UsageError, match="nonsense"):
        Ray(store.root, "nonsense").start(lambda event: None)
    assert time.monotonic() - started < 5, "Ray itself would try for many minutes"
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="not installed") as error:
        Ray(store.root)
    assert 'pip install "tombola[ray]"' in str(error.value)
