"""Who still reads what: nothing is dropped that somebody alive waits for."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.engine.toy_steps import number_step

from tombola.engine.inline import run
from tombola.engine.readers import drop, read_by_others, reading
from tombola.plan.graph import Graph

NUMBER = number_step(4)
WEIGHTS = (NUMBER.identity, "weights.safetensors")


@pytest.fixture
def path(store) -> Path:
    """The weights of a finished run."""
    run(Graph((), outputs=(NUMBER.out("weights.safetensors"),)), store)
    return store.folder(NUMBER.identity) / "weights.safetensors"


class Elsewhere:
    """Another thread that reads until it is told to stop."""

    def __init__(self, store, outputs) -> None:
        self.announced, self.stop = threading.Event(), threading.Event()

        def read() -> None:
            with reading(store, outputs):
                self.announced.set()
                self.stop.wait()

        self.thread = threading.Thread(target=read)

    def __enter__(self) -> None:
        self.thread.start()
        self.announced.wait()

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def test_what_nobody_reads_is_dropped_and_its_size_told(store, path):
    size = path.stat().st_size
    assert drop(store, WEIGHTS) == size
    assert not path.exists()
    assert drop(store, WEIGHTS) == 0


def test_kept_outputs_and_strangers_are_never_dropped(store, path):
    assert drop(store, (NUMBER.identity, "value.json")) == 0
    assert drop(store, (NUMBER.identity, "spec.json")) == 0
    assert drop(store, ("0" * 64, "weights.safetensors")) == 0
    assert store.verify(NUMBER.identity) == []


def test_what_another_thread_of_this_process_reads_stays(store, path):
    with Elsewhere(store, [WEIGHTS]):
        assert read_by_others(store) == {WEIGHTS}
        assert drop(store, WEIGHTS) == 0
    assert drop(store, WEIGHTS) > 0
    assert list((store.root / "readers").iterdir()) == []


def test_ones_own_announcement_keeps_oneself_from_nothing(store, path):
    with reading(store, [WEIGHTS]), reading(store, [("1" * 64, "mask.safetensors")]):
        assert read_by_others(store) == set()
        assert drop(store, WEIGHTS) > 0


def test_what_the_dead_left_behind_is_swept_unless_only_asked_about(store):
    (store.root / "readers" / "dead").write_text('{"host": "here", "pid": 1}\n' + " ".join(WEIGHTS) + "\n")
    import os

    os.utime(store.root / "readers" / "dead", (0, 0))
    assert read_by_others(store, sweep=False) == set()
    assert (store.root / "readers" / "dead").exists()
    assert read_by_others(store) == set()
    assert not (store.root / "readers" / "dead").exists()


def test_a_damaged_or_missing_folder_of_readers_stops_nobody(store, path):
    (store.root / "readers" / "torn").write_bytes(b"\xff\x00half")
    assert read_by_others(store) == set()
    (store.root / "readers").rmdir()
    assert drop(store, WEIGHTS) > 0
    with reading(store, [WEIGHTS]):
        assert len(list((store.root / "readers").iterdir())) == 1


def test_a_file_that_cannot_be_deleted_stays_and_is_no_error(store, path, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refused)
    assert drop(store, WEIGHTS) == 0
    assert path.exists()
