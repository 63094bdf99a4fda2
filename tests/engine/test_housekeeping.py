"""Housekeeping: what nobody waits for goes, everything else stays, and a limit is kept."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine import toy_steps
from tests.engine.toy_steps import number_step, total_step

from tombola.engine import attempts
from tombola.engine.housekeeping import gc, used_bytes
from tombola.engine.inline import run
from tombola.engine.pending import substitute
from tombola.engine.protocol import Silent
from tombola.engine.readers import reading
from tombola.engine.scheduling import Policy
from tombola.engine.store import Store
from tombola.errors import StoreError
from tombola.plan.graph import Graph
from tombola.plan.step import Step
from tombola.plan.steps import StepKind

FIRST, SECOND = number_step(1), number_step(2)
WEIGHTS = "weights.safetensors"
UNFINISHED, STARTED_ELSEWHERE = "a" * 64, "b" * 64


def tree(root: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))}


def aged(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (0, 0))
    return path


@pytest.fixture
def littered(store):
    """Two runs with weights, scratch of finished, unfinished and abandoned runs, and leftovers of all kinds."""
    run(Graph((), outputs=(FIRST.out(WEIGHTS), SECOND.out(WEIGHTS))), store)
    for identity in (FIRST.identity, UNFINISHED):
        (store.scratch(identity) / "checkpoints").mkdir(parents=True)
        (store.scratch(identity) / "checkpoints" / "step").write_text("so far")
    numerics = {"recipe": {"batch_size": 4}, "numerics": {"micro_batch": None}}
    stood_in_for = Step("hungry", 1, numerics)
    assert substitute(stood_in_for, store) is not None
    store.scratch(stood_in_for.identity).mkdir()
    (store.root / "running" / f".{SECOND.identity}-1.partial").mkdir()
    aged(store.root / "index" / ".rates.jsonl.1.partial")
    aged(store.folder(FIRST.identity) / ".manifest.json.1.partial")
    aged(store.root / "leases" / ".clock-1")
    aged(store.root / "leases" / ("c" * 64))
    aged(store.root / "readers" / "dead")
    (store.root / "index" / ".rates.jsonl.2.partial").touch()
    (store.root / "aside" / "old-0").mkdir(parents=True)
    return store


def test_what_goes_and_what_stays(littered):
    before = used_bytes(littered)
    swept = gc(littered)
    assert set(swept.dropped) == {(FIRST.identity, WEIGHTS), (SECOND.identity, WEIGHTS)}
    for step in (FIRST, SECOND):
        assert littered.verify(step.identity) == []
        assert (littered.folder(step.identity) / "value.json").is_file()
    assert [path.name for path in (littered.root / "running").iterdir()] == [UNFINISHED]
    assert [path.name for path in (littered.root / "leases").iterdir()] == []
    assert [path.name for path in (littered.root / "readers").iterdir()] == []
    assert [path.name for path in littered.root.rglob("*.partial")] == [".rates.jsonl.2.partial"], "young"
    assert (littered.root / "aside" / "old-0").is_dir()
    assert before - used_bytes(littered) >= swept.bytes > 0


def test_a_dry_run_tells_the_same_and_touches_nothing(littered):
    before = tree(littered.root)
    told = gc(littered, checkpoints=True, aside=True, dry_run=True)
    assert tree(littered.root) == before
    assert gc(littered, checkpoints=True, aside=True) == told


def test_checkpoints_and_the_aside_go_on_request(littered):
    gc(littered, checkpoints=True, aside=True)
    assert list((littered.root / "running").iterdir()) == []
    assert list((littered.root / "aside").iterdir()) == []


def test_what_is_kept_read_or_computed_is_left_alone(littered):
    lease = littered.lease(UNFINISHED)
    assert lease is not None
    announced, stop = threading.Event(), threading.Event()

    def read() -> None:
        with reading(littered, [(FIRST.identity, WEIGHTS)]):
            announced.set()
            stop.wait()

    thread = threading.Thread(target=read)
    thread.start()
    announced.wait()
    for dry_run in (True, False):
        swept = gc(littered, keep={(SECOND.identity, WEIGHTS)}, checkpoints=True, dry_run=dry_run)
        assert swept.dropped == ()
        assert littered.scratch(UNFINISHED) not in swept.folders
    assert (littered.scratch(UNFINISHED) / "checkpoints" / "step").is_file()
    assert lease.path.exists()
    stop.set()
    thread.join()
    lease.release()


def test_housekeeping_while_others_write_and_tidy_up(littered, monkeypatch):
    """Whatever is gone by the time it is looked at was somebody else's business."""
    former = Path.stat

    def vanishing(self: Path, **more: bool) -> os.stat_result:
        if self.suffix == ".partial" and self.parent.name == "index":
            raise FileNotFoundError(2, "gone", str(self))
        return former(self, **more)

    monkeypatch.setattr(Path, "stat", vanishing)
    gc(littered)


def test_gc_at_every_moment_of_a_running_graph_costs_it_nothing(store):
    graph = Graph(
        (total_step(FIRST, SECOND), total_step(SECOND, number_step(3))), outputs=(FIRST.out(WEIGHTS),)
    )

    class Sweeping(Silent):
        """Another process, at the worst moments."""

        def sweep(self) -> None:
            thread = threading.Thread(target=gc, args=(Store(store.root),), kwargs={"checkpoints": True})
            thread.start()
            thread.join()

        def began(self, step: Step) -> None:
            self.sweep()

        def ended(self, step: Step, seconds: float) -> None:
            self.sweep()

    run(graph, store, reporter=Sweeping())
    begun = [entry["run"] for entry in attempts.read(store.root) if entry["event"] == "began"]
    assert len(begun) == len(set(begun)) == 5, "nothing had to be made again"
    assert store.read_json(total_step(FIRST, SECOND).out("value.json")) == {"value": 3.0}
    assert store.path(FIRST.out(WEIGHTS)).is_file(), "what was asked for is there"


# -- a limit ----------------------------------------------------------------------------------------------------


def heavy(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Weights of a hundred thousand bytes when somebody wants them."""
    work.write_json("value.json", {"value": parameters["value"]})
    if WEIGHTS in work.wanted:
        work.write_tensors(WEIGHTS, {"w": torch.full((25_000,), float(parameters["value"]))}, transient=True)


def test_within_its_limit_a_graph_drops_what_it_can(store, monkeypatch):
    monkeypatch.setitem(toy_steps.TOYS, "heavy", StepKind(1, heavy))
    old, *new = (Step("heavy", 1, {"value": value}) for value in range(4))
    run(Graph((), outputs=(old.out(WEIGHTS),)), store)
    sums = tuple(total_step(step) for step in new)
    run(Graph(sums[:1]), store, policy=Policy(max_store_bytes=250_000))
    assert store.path(old.out(WEIGHTS)).is_file(), "there was room for both"
    run(Graph(sums), store, policy=Policy(max_store_bytes=150_000))
    assert not store.is_there(old.identity, {WEIGHTS}), "it made room"
    assert [store.read_json(step.out("value.json"))["value"] for step in sums] == [1.0, 2.0, 3.0]
    assert used_bytes(store) < 20_000


def test_without_room_nothing_more_is_begun_and_finished_work_stays(store):
    run(Graph((FIRST,)), store)
    with pytest.raises(StoreError, match="was not begun") as error:
        run(Graph((FIRST, SECOND)), store, policy=Policy(max_store_bytes=10))
    assert "--max-store-gb" in error.value.todo
    assert store.is_there(FIRST.identity)
    assert not store.is_there(SECOND.identity)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(Graph((FIRST,)), store, policy=Policy(max_store_bytes=10)).complete, "nothing to begin"
