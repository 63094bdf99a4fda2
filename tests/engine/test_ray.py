"""Ray tasks: the same bytes as the other engines; dead workers and nodes survived; stops with a checkpoint."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time

import pytest
from tests.engine import orderly_toy
from tests.engine.orderly_toy import orderly_step, patient_step
from tests.engine.preload_toys import broken_step, mortal_step
from tests.engine.toy_steps import number_step, total_step

from tombola import api
from tombola.engine import attempts, performing
from tombola.engine.inline import run
from tombola.engine.local import Local
from tombola.engine.protocol import Silent
from tombola.engine.ray_tasks import Ray
from tombola.engine.scheduling import Policy, bring_about
from tombola.engine.store import Store
from tombola.errors import StoreError, TrainingError
from tombola.plan.graph import Graph
from tombola.plan.steps import STEPS
from tombola.tasks.task import DataOptions

# Ray asks for a token, and reads it once a process; this one is not written into anybody's home.
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
ray = pytest.importorskip("ray")
TOYS = ("tests.engine.orderly_toy",)


@pytest.fixture(scope="module", autouse=True)
def ended():
    yield
    ray.shutdown()


@pytest.fixture
def no_ray():
    ray.shutdown()


@pytest.fixture
def shared_ray():
    """One Ray for several tests, which no engine may shut down."""
    if not ray.is_initialized():
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            object_store_memory=80 * 2**20,
        )
    yield
    assert ray.is_initialized()


def work_on(graph, store, workers=2, policy=None, reporter=None, preload=TOYS, **more):
    return bring_about(
        graph, store, Ray(store.root, workers=workers, preload=preload, **more), reporter, policy
    )


def sums():
    numbers = [number_step(value) for value in range(6)]
    return Graph((total_step(*numbers[:3]), total_step(*numbers[3:]), *numbers))


def kept_bytes(store):
    return {
        (identity, path.name): path.read_bytes()
        for identity in store
        for path in sorted(store.folder(identity).iterdir())
        if path.name != "timing.jsonl"
    }


def begun(store):
    return [entry["run"] for entry in attempts.read(store.root) if entry["event"] == "began"]


class Stubborn(Silent):
    """Kills the process of the first step that is under way, once."""

    def __init__(self, store):
        self.store = store
        self.killed = None
        self.heard = []

    def moved(self, step, done, total):
        if self.killed is None and done > 5:
            self.killed = step.identity
            pids = [e["pid"] for e in attempts.read(self.store.root) if e["run"] == step.identity]
            os.kill(pids[-1], signal.SIGKILL)

    def failed(self, step, failure, again):
        self.heard.append((step.identity, failure.what, again))


# -- one fast journey with a Ray of its own ---------------------------------------------------------------------


def test_ray_gives_the_bytes_of_inline_and_leaves_the_process_as_it_was(no_ray, store, tmp_path, capfd):
    before = (sys.stdout, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    other = Store(tmp_path / "other")
    assert work_on(sums(), store, workers=1).ran == 8
    run(sums(), other)
    assert kept_bytes(store) == kept_bytes(other)
    assert sorted(begun(store)) == sorted(step.identity for step in sums().steps)
    assert os.getpid() not in {entry["pid"] for entry in attempts.read(store.root)}
    assert not ray.is_initialized()
    assert (sys.stdout, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert capfd.readouterr().out == ""
    assert [*(store.root / "leases").iterdir(), *(store.root / "readers").iterdir()] == []


# -- slow: real Ray, real trainings -----------------------------------------------------------------------------


@pytest.mark.slow
def test_three_engines_give_the_same_bytes_for_an_imp_search(
    shared_ray, tiny_bert, sentences, tmp_path, monkeypatch
):
    monkeypatch.setattr(performing, "STEPS", STEPS)
    search = api.plan_find(
        str(tiny_bert),
        data=DataOptions(data=sentences, text="text", label="label"),
        recipe=api.make_recipe(None, epochs=2, batch_size=16, learning_rate=1e-2, max_length=16),
        numerics=api.make_numerics(threads=1, device="cpu"),
        sparsities=(0.2,),
        seeds=(0, 1),
    )
    stores = {name: Store(tmp_path / name) for name in ("inline", "local", "ray")}
    run(search.graph, stores["inline"])
    bring_about(search.graph, stores["local"], Local(stores["local"].root, 2))
    summary = work_on(search.graph, stores["ray"], preload=())
    assert summary.complete
    assert kept_bytes(stores["inline"]) == kept_bytes(stores["local"]) == kept_bytes(stores["ray"])
    assert len(kept_bytes(stores["ray"])) > 20
    assert len(begun(stores["ray"])) == len(set(begun(stores["ray"])))


@pytest.mark.slow
def test_a_killed_worker_costs_one_attempt_and_changes_no_byte(shared_ray, store, tmp_path, monkeypatch):
    naps = tuple(patient_step(value, 3) for value in range(3))
    graph = Graph((*naps, mortal_step(5, deaths=1), *sums().wanted))
    reporter = Stubborn(store)
    assert work_on(graph, store, reporter=reporter).complete
    died = {identity for identity, _, again in reporter.heard if again}
    assert died == {reporter.killed, mortal_step(5, 1).identity}
    assert "died" in reporter.heard[0][1]
    entries = attempts.read(store.root)
    for step in graph.steps:
        begins = [e["pid"] for e in entries if e["run"] == step.identity and e["event"] == "began"]
        assert len(begins) == (2 if step.identity in died else 1)
        assert len([e for e in entries if e["run"] == step.identity and e["event"] == "finished"]) == 1
    other = Store(tmp_path / "other")
    monkeypatch.setattr(performing, "STEPS", orderly_toy.TOYS)
    quick = tuple(patient_step(value, 0.01) for value in range(3))
    run(Graph((*quick, mortal_step(5, deaths=0), *sums().wanted)), other)
    assert kept_bytes(store) == kept_bytes(other)


@pytest.mark.slow
def test_a_failing_step_fails_its_descendants_only(shared_ray, store):
    graph = Graph((total_step(broken_step()), number_step(7)))
    summary = work_on(graph, store, policy=Policy(keep_going=True, retries=1))
    assert [entry.step.kind for entry in summary.failed] == ["broken"]
    assert "this step is broken" in summary.failed[0].failure.what
    assert [step.kind for step in summary.blocked] == ["total"]
    assert store.is_there(number_step(7).identity)
    assert begun(store).count(broken_step().identity) == 2


@pytest.mark.slow
def test_progress_is_heard_and_a_stop_comes_between_two_steps_of_a_training(shared_ray, store):
    step = orderly_step()
    heard = []

    class Impatient(Silent):
        def began(self, step):
            heard.append("began")

        def moved(self, step, done, total):
            heard.append((done, total))
            if done >= 5:
                raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work_on(Graph((step,)), store, reporter=Impatient())
    assert time.monotonic() - started < 15
    assert heard[0] == "began"
    assert heard[1][1] == 100
    state, last = (store.scratch(step.identity) / "last").read_text().split()
    assert state == "whole"
    assert 5 <= int(last) < 100
    lease = store.lease(step.identity)
    assert lease is not None, "a stopped task must let go of its lease"
    lease.release()


@pytest.mark.slow
def test_a_worker_that_cannot_begin_ends_the_run_with_what_it_said(shared_ray, store):
    with pytest.raises(StoreError, match="could not begin") as error:
        work_on(Graph((number_step(1),)), store, preload=("no_such_module",))
    assert "no_such_module" in str(error.value)


@pytest.mark.slow
def test_a_worker_killed_for_memory_is_told_from_other_deaths(no_ray, store, monkeypatch):
    """Ray's memory monitor is told that a thousandth of the machine is too much."""
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "100")
    with pytest.raises(TrainingError, match="memory of the node"):
        work_on(Graph((patient_step(1, 30),)), store, workers=1)


INTERRUPTED = """
import sys
from tests.engine.orderly_toy import patient_step
from tombola.engine.ray_tasks import Ray
from tombola.engine.scheduling import bring_about
from tombola.engine.store import Store
from tombola.plan.graph import Graph
store = Store(sys.argv[1])
engine = Ray(store.root, workers=2, preload=("tests.engine.orderly_toy",))
bring_about(Graph((patient_step(1, 60), patient_step(2, 60))), store, engine)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_signals_to_the_driver_leave_nothing_running_and_nothing_lost(store, how):
    """Ctrl-C reaches every process of the terminal, as here; the others the driver alone."""
    driver = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(store.root)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    places = [store.scratch(patient_step(value, 60).identity) / "done" for value in (1, 2)]
    until = time.monotonic() + 60
    while not all(place.exists() for place in places):
        assert driver.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    (os.killpg if how == signal.SIGINT else os.kill)(driver.pid, how)
    assert driver.wait(timeout=30) != 0
    workers = {entry["pid"] for entry in attempts.read(store.root)}
    until = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in workers):
        assert time.monotonic() < until, "orphans work on"
        time.sleep(0.1)
    ended = [entry for entry in attempts.read(store.root) if entry["event"] == "failed"]
    assert len(ended) == (0 if how == signal.SIGKILL else 2), "a stop is orderly, a kill is not"
    assert all(0 < int(place.read_text()) < 100 for place in places)


@pytest.mark.slow
def test_a_cluster_of_two_nodes_that_loses_one_goes_on(no_ray, store, capfd):
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        other = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        slots, heard = [], []

        class Unplugging(Silent):
            def moved(self, step, done, total):
                slots.append(engine.slots)
                if len(set(begun(store))) == 2 and other in cluster.worker_nodes:
                    cluster.remove_node(other, allow_graceful=False)

            def failed(self, step, failure, again):
                heard.append((step.identity, failure.what, again))

        engine = Ray(store.root, cluster.address, preload=TOYS)
        naps = tuple(patient_step(value, 4) for value in range(4))
        summary = bring_about(Graph(naps), store, engine, Unplugging())
        assert summary.complete
        assert slots[0] == 2
        ((died, what, again),) = heard
        assert "node died" in what
        assert again
        entries = [entry for entry in attempts.read(store.root) if entry["event"] == "began"]
        assert sorted(e["run"] for e in entries) == sorted([*(step.identity for step in naps), died])
        assert len({e["pid"] for e in entries}) == 2
        assert capfd.readouterr().out == "", "stdout is for results"
    finally:
        ray.shutdown()
        cluster.shutdown()
