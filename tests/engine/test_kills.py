"""Killed at random moments, on full and read-only disks, with others on the same store: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine import toy_steps
from tests.engine.toy_steps import number_step, total_step

from tombola.engine import attempts
from tombola.engine.housekeeping import gc
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.errors import TombolaError
from tombola.plan.graph import Graph
from tombola.plan.step import Step
from tombola.plan.steps import StepKind

pytestmark = pytest.mark.slow

KILLS = 50


def contents(root: Path) -> dict[tuple[str, str], bytes]:
    store = Store(root)
    return {
        (identity, path.name): path.read_bytes()
        for identity in store
        for path in sorted(store.folder(identity).iterdir())
        if path.name != "timing.jsonl"
    }


def begun(root: Path) -> Counter[str]:
    """How often each step began, remaking dropped outputs aside."""
    return Counter(
        entry["run"]
        for entry in attempts.read(root)
        if entry["event"] == "began" and "recompute" not in entry
    )


class Studying:
    """Starts the study of ``study_to_kill`` on one store, again and again."""

    def __init__(self, root: Path, model: Path, sentences: Path) -> None:
        self.root, self.model, self.sentences = root, model, sentences
        self.seen: list[tuple[set[str], Counter[str]]] = []

    def start(self, workers: int = 2) -> subprocess.Popen[bytes]:
        if self.root.exists():
            self.seen.append((set(Store(self.root)), begun(self.root)))
        arguments = [str(self.root), str(self.model), str(self.sentences), str(workers)]
        paths = os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.engine.study_to_kill", *arguments],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )

    def began_again(self) -> set[str]:
        """Steps that began once more after they had been finished."""
        last = begun(self.root)
        return {run for finished, counts in self.seen for run in finished if last[run] > counts[run]}


@pytest.fixture(scope="module")
def undisturbed(tiny_bert, sentences, tmp_path_factory) -> dict[tuple[str, str], bytes]:
    root = tmp_path_factory.mktemp("undisturbed") / "store"
    with Studying(root, tiny_bert, sentences).start(workers=0) as study:
        assert study.wait() == 0
    assert set(begun(root).values()) == {1}
    return contents(root)


def workers_of(parent: subprocess.Popen[bytes]) -> list[int]:
    with suppress(FileNotFoundError):
        return [
            int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        ]
    return []


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_fifty_kills_at_random_moments(undisturbed, tiny_bert, sentences, tmp_path):
    draw = random.Random(time.time_ns())
    kills, rounds = Counter[str](), 0
    while sum(kills.values()) < KILLS:
        study = Studying(tmp_path / f"store-{rounds}", tiny_bert, sentences)
        rounds += 1
        ended = None
        while ended != 0:
            with study.start() as parent:
                # Long enough to start, short enough that much is left to do.
                with suppress(subprocess.TimeoutExpired):
                    parent.wait(draw.uniform(1.0, 9.0))
                while parent.poll() is None and sum(kills.values()) < KILLS:
                    victim = draw.choice(["worker", "parent", "both"])
                    workers = workers_of(parent)
                    if victim == "worker" and workers:
                        kill([draw.choice(workers)])
                    elif victim != "worker":
                        kill([parent.pid, *(workers if victim == "both" else [])])
                    else:
                        continue
                    kills[victim] += 1
                    with suppress(subprocess.TimeoutExpired):
                        parent.wait(draw.uniform(0.2, 4.0))
                ended = parent.wait()
                assert ended in (0, -signal.SIGKILL), "nothing but our kills ends a study"
        assert contents(study.root) == undisturbed, f"after {kills}"
        assert study.began_again() == set()
    print(f"{rounds} studies, killed: {dict(kills)}")
    assert min(kills[victim] for victim in ("worker", "parent", "both")) > 0


def test_two_studies_on_one_store_while_another_process_keeps_house(
    undisturbed, tiny_bert, sentences, tmp_path
):
    study = Studying(tmp_path / "store", tiny_bert, sentences)
    with study.start() as first, study.start() as second:
        while first.poll() is None or second.poll() is None:
            if study.root.exists():
                gc(Store(study.root), checkpoints=True, aside=True)
            time.sleep(0.05)
        assert (first.wait(), second.wait()) == (0, 0)
    # Weights and states that were asked for are nobody's any more once both have ended.
    kept, expected = (
        {key: content for key, content in files.items() if not key[1].startswith(("weights", "state"))}
        for files in (contents(study.root), undisturbed)
    )
    assert kept == expected
    assert set(begun(study.root).values()) == {1}
    assert not list((study.root / "aside").glob("*"))


# -- disks ------------------------------------------------------------------------------------------------------


def heavy(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Keeps two hundred thousand bytes."""
    work.write_tensors("kept.safetensors", {"w": torch.full((50_000,), float(parameters["value"]))})


class Disk:
    """A small file system in memory that can be made bigger, or read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self, options: str) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(monkeypatch) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    monkeypatch.setitem(toy_steps.TOYS, "heavy", StepKind(1, heavy))
    with tempfile.TemporaryDirectory() as folder:
        yield Disk(Path(folder))
        while subprocess.run(["umount", folder], capture_output=True).returncode == 0:
            pass


HEAVY = tuple(Step("heavy", 1, {"value": value}) for value in range(8))
GRAPH = Graph((*HEAVY, total_step(number_step(1))))


def test_a_full_disk_is_told_and_with_room_it_goes_on(disk, tmp_path):
    run(GRAPH, Store(tmp_path))
    disk.mount("size=1m")
    root = disk.folder / "store"
    for _ in range(2):
        with pytest.raises((TombolaError, OSError), match="No space left"):
            run(GRAPH, Store(root))
    finished = set(Store(root))
    assert 0 < len(finished) < len(GRAPH.steps)
    assert [problem for identity in finished for problem in Store(root).verify(identity)] == []
    before = begun(root)
    disk.mount("remount,size=20m")
    run(GRAPH, Store(root))
    assert contents(root) == contents(tmp_path)
    assert all(begun(root)[identity] == before[identity] for identity in finished)


def test_a_read_only_store_can_be_read_and_says_so_when_it_must_be_written(disk, tmp_path):
    disk.mount("size=20m")
    root = disk.folder / "store"
    run(GRAPH, Store(root))
    before = contents(root)
    disk.mount("remount,ro")
    assert run(GRAPH, Store(root)).complete
    assert gc(Store(root), dry_run=True).dropped == ()
    assert [problem for identity in Store(root) for problem in Store(root).verify(identity)] == []
    more = Graph((number_step(7),))
    with pytest.raises((TombolaError, OSError), match="Read-only file system"):
        run(GRAPH + more, Store(root))
    disk.mount("remount,rw")
    run(GRAPH + more, Store(root))
    assert {key: content for key, content in contents(root).items() if key in before} == before
    assert Store(root).is_there(number_step(7).identity)


def test_a_store_that_cannot_be_made_names_the_option(disk):
    disk.mount("size=1m,ro")
    with pytest.raises(TombolaError, match="Read-only file system") as error:
        Store(disk.folder / "store")
    assert "--store" in error.value.todo
