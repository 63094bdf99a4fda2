"""Worker processes: the same bytes as inline, deaths survived, stops with a checkpoint, nothing done twice."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from queue import SimpleQueue
from typing import Any

import pytest
from tests.engine.preload_toys import broken_step, hungry_step, mortal_step, napping_step
from tests.engine.toy_steps import number_step, total_step

from tombola.engine import attempts, worker
from tombola.engine.inline import run
from tombola.engine.local import Local
from tombola.engine.protocol import Silent
from tombola.engine.scheduling import Policy, bring_about
from tombola.engine.store import Store
from tombola.errors import StoreError, UsageError
from tombola.plan.graph import Graph

TOYS = ("tests.engine.preload_toys",)


def work_on(graph, store, workers=2, policy=None, reporter=None, preload=TOYS):
    return bring_about(graph, store, Local(store.root, workers, preload=preload), reporter, policy)


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


def test_local_gives_the_bytes_of_inline(store, tmp_path):
    other = Store(tmp_path / "other")
    work_on(sums(), store)
    run(sums(), other)
    assert kept_bytes(store) == kept_bytes(other)
    assert kept_bytes(store)


def test_every_step_begins_once_and_two_processes_worked(store):
    steps = [napping_step(value, 0.3) for value in range(4)]
    work_on(Graph(tuple(steps)), store)
    assert sorted(begun(store)) == sorted(step.identity for step in steps)
    assert len({entry["pid"] for entry in attempts.read(store.root)}) == 2


def test_a_killed_worker_is_replaced_and_its_step_tried_again(store):
    heard = []

    class Listening(Silent):
        def failed(self, step, failure, again):
            heard.append((step.label, failure.what, again))

    summary = work_on(Graph((mortal_step(1, deaths=2),)), store, reporter=Listening())
    assert summary.complete
    assert heard == [("mortal 1", "its worker process died (killed by SIGKILL)", True)] * 2
    assert store.read_json(mortal_step(1, 0).out("value.json")) == {"value": 1}


def test_retries_have_a_limit(store):
    with pytest.raises(StoreError, match="its worker process died"):
        work_on(Graph((mortal_step(1, deaths=9),)), store, policy=Policy(retries=1))
    assert len(begun(store)) == 2


def test_a_failing_step_fails_its_descendants_only(store):
    broken = broken_step()
    graph = Graph((total_step(broken), number_step(7)))
    summary = work_on(graph, store, policy=Policy(keep_going=True, retries=1))
    assert [entry.step.kind for entry in summary.failed] == ["broken"]
    assert "this step is broken" in summary.failed[0].failure.what
    assert [step.kind for step in summary.blocked] == ["total"]
    assert store.is_there(number_step(7).identity)
    assert begun(store).count(broken.identity) == 2


def test_out_of_memory_halves_the_micro_batch_until_it_fits_and_stays_so(store):
    step = hungry_step(8)
    summary = work_on(Graph((step,)), store)
    (stand_in,) = (summary.stands_in or {}).values()
    assert store.read_json(stand_in.out("value.json")) == {"value": 2}
    finished = store.run(stand_in.identity)
    assert finished is not None
    assert finished.substitutes == step.identity
    before = begun(store)
    assert work_on(Graph((step,)), store).ran == 0
    assert begun(store) == before


def test_stopping_lets_a_step_come_to_its_next_checkpoint(store):
    step = napping_step(1, seconds=20)

    class Impatient(Silent):
        def moved(self, step, done, total):
            if done >= 3:
                raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work_on(Graph((step,)), store, workers=1, reporter=Impatient())
    assert time.monotonic() - started < 15
    done = int((store.scratch(step.identity) / "done").read_text())
    assert 3 <= done < 100
    (lease,) = [store.lease(step.identity)]
    assert lease is not None, "a stopped worker must let go of its lease"
    lease.release()


def test_a_worker_whose_parent_is_killed_stops_too_and_the_step_goes_on_later(store):
    step = napping_step(1, seconds=10)
    code = (
        "from tests.engine.preload_toys import *; from tombola.engine.local import Local\n"
        "from tombola.engine.scheduling import bring_about; from tombola.engine.store import Store\n"
        "from tombola.plan.graph import Graph; import sys\n"
        "store = Store(sys.argv[1])\n"
        f"bring_about(Graph((napping_step(1, 10),)), store, Local(store.root, 1, preload={TOYS!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(store.root)])
    done = store.scratch(step.identity) / "done"
    while not done.exists():
        assert parent.poll() is None
        time.sleep(0.05)
    (began,) = [entry for entry in attempts.read(store.root) if entry["event"] == "began"]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until = time.monotonic() + 10
    while os.path.exists(f"/proc/{began['pid']}"):
        assert time.monotonic() < until, "the orphan works on"
        time.sleep(0.05)
    assert 0 < int(done.read_text()) < 100
    work_on(Graph((napping_step(1, 0.1),)), store, workers=1)
    assert store.read_json(step.out("value.json")) == {"value": 1}


def test_a_worker_that_cannot_start_ends_the_run_with_its_last_words(store):
    with pytest.raises(StoreError, match="could not start") as error:
        work_on(Graph((number_step(1),)), store, preload=("no_such_module",))
    assert "no_such_module" in str(error.value)


def test_warnings_of_workers_are_heard(store):
    step = number_step(1)
    work_on(Graph((step,), (step.out("weights.safetensors"),)), store)
    weights = store.folder(step.identity) / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.warns(UserWarning, match="is damaged"):
        summary = work_on(Graph((total_step(step),)), store)
    assert summary.complete


def test_two_studies_at_once_do_everything_once(store):
    steps = tuple(napping_step(value, 0.2) for value in range(6))
    failures = []

    def work():
        try:
            work_on(Graph(steps), Store(store.root), workers=1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(begun(store)) == sorted(step.identity for step in steps)


def test_each_worker_leases_a_gpu_of_its_own(store, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, other = Local(store.root, 1, gpus=True), Local(store.root, gpus=True)
    assert (one.slots, other.slots) == (1, 2)
    first, second = one._lease_gpu(), other._lease_gpu()
    assert first is not None
    assert second is not None
    assert [first.path.name, second.path.name] == ["gpu-4", "gpu-7"]
    with pytest.raises(StoreError, match="all 2 GPUs"):
        other._lease_gpu()
    first.release()
    second.release()


def test_bad_numbers_of_workers_are_refused(store, monkeypatch):
    with pytest.raises(UsageError, match="0 workers"):
        Local(store.root, 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UsageError, match="there is none here"):
        Local(store.root, gpus=True)


def test_attempts_are_lines_of_json(store):
    work_on(Graph((number_step(1),)), store)
    lines = (store.root / "attempts.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["began", "finished"]


def test_a_worker_killed_while_it_starts_is_replaced(store, monkeypatch, tmp_path):
    """By the system for want of memory, say: that is no reason to end a study."""
    (tmp_path / "ill_starred.py").write_text(
        "import os, signal, pathlib\n"
        "first = pathlib.Path(__file__).with_suffix('.killed')\n"
        "if not first.exists():\n    first.touch()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)]))
    summary = work_on(Graph((number_step(1),)), store, workers=1, preload=("ill_starred", *TOYS))
    assert summary.complete
    assert (tmp_path / "ill_starred.killed").exists()


def test_an_order_torn_by_the_death_of_its_writer_ends_a_worker():
    orders: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    stopping = threading.Event()
    worker._listen(io.StringIO('{"specification": {"step": "numb'), orders, stopping)
    assert stopping.is_set()
    assert orders.get_nowait() is None
