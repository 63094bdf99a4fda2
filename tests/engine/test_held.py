"""Files a living process holds: the dead hold nothing here, and nothing after a minute elsewhere."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tombola.engine import held
from tombola.engine.held import Held, content_of, hold, is_held, this_host


def taken(path: Path, content: str = "") -> Held:
    got = hold(path, content)
    assert got is not None
    return got


def test_held_once_and_free_again(tmp_path):
    path = tmp_path / "lease"
    first = taken(path, "what for\n")
    assert is_held(path)
    assert hold(path) is None
    assert content_of(path) == "what for\n"
    first.release()
    assert not path.exists()
    assert not is_held(path)
    taken(path).release()


def test_what_a_killed_process_held_is_taken_over_at_once(tmp_path):
    path = tmp_path / "lease"
    context = multiprocessing.get_context("fork")
    holding = context.Event()

    def hold_for_ever() -> None:
        taken(path, "a dead man's\n")
        holding.set()
        time.sleep(600)

    process = context.Process(target=hold_for_ever)
    process.start()
    holding.wait()
    assert hold(path) is None
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert path.exists(), "SIGKILL tidies nothing up"
    assert not is_held(path)
    mine = taken(path)
    assert content_of(path) == ""
    mine.release()


def of_another_machine(path: Path, silent_for: float) -> None:
    path.write_text(json.dumps({"host": "another machine", "pid": 1}) + "\nits outputs\n")
    then = time.time() - silent_for
    os.utime(path, (then, then))


def test_a_living_holder_on_another_machine_is_respected(tmp_path):
    path = tmp_path / "lease"
    of_another_machine(path, silent_for=held.SILENCE - 20)
    assert is_held(path)
    assert hold(path) is None
    assert json.loads(path.read_text().splitlines()[0])["host"] == "another machine"


def test_a_holder_on_another_machine_that_is_silent_has_lost_its_file(tmp_path):
    path = tmp_path / "lease"
    of_another_machine(path, silent_for=held.SILENCE + 1)
    assert not is_held(path)
    mine = taken(path)
    assert json.loads(path.read_text().splitlines()[0])["host"] == this_host()
    mine.release()


def test_a_folder_that_cannot_be_written_has_its_time_from_our_own_clock(tmp_path, monkeypatch):
    path = tmp_path / "lease"
    of_another_machine(path, silent_for=1)

    def refused(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(held.tempfile, "NamedTemporaryFile", refused)
    assert is_held(path)


@pytest.mark.parametrize("note", [b"", b'{"host": "anoth', b"\xff\xfe\x00", b"[]", b'{"pid": 1}', b"7\n"])
def test_a_torn_note_holds_nothing(tmp_path, note):
    path = tmp_path / "lease"
    path.write_bytes(note)
    assert not is_held(path)
    taken(path).release()


def test_a_heart_beats(tmp_path, monkeypatch):
    monkeypatch.setattr(held, "HEARTBEAT", 0.01)
    monkeypatch.setattr(held, "_HEART", held._Heart())
    mine = taken(tmp_path / "lease")
    os.utime(mine.path, (0, 0))
    until = time.monotonic() + 5
    while mine.path.stat().st_mtime == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert mine.path.stat().st_mtime > 0
    mine.release()


def test_asking_never_disturbs_whoever_is_about_to_hold(tmp_path):
    path, stop = tmp_path / "lease", threading.Event()

    def ask() -> None:
        while not stop.is_set():
            is_held(path)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        for _ in range(300):
            taken(path).release()
    finally:
        stop.set()
        for thread in asking:
            thread.join()


def test_one_that_cannot_be_deleted_is_free_all_the_same(tmp_path, monkeypatch):
    path = tmp_path / "lease"
    mine = taken(path)
    with monkeypatch.context() as broken:

        def refused(*_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system")

        broken.setattr(Path, "unlink", refused)
        mine.release()
    assert not is_held(path)
    taken(path).release()


def test_the_folder_comes_back_if_somebody_deletes_it(tmp_path):
    path = tmp_path / "leases" / "lease"
    taken(path).release()
    path.parent.rmdir()
    taken(path).release()


def test_a_note_is_written_whole_or_it_is_an_error(tmp_path, monkeypatch):
    former = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda descriptor, content, at: former(descriptor, content[:7], at), raising=True
    )
    mine = taken(tmp_path / "lease", "one output\nanother output\n")
    assert content_of(mine.path) == "one output\nanother output\n"
    mine.release()


def test_a_race_for_one_file_has_one_winner(tmp_path):
    """Taken, given up and deleted by many at once: never two holders."""
    path, inside, most = tmp_path / "lease", [0], [0]
    barrier = threading.Barrier(4)

    def race() -> None:
        barrier.wait()
        for _ in range(200):
            mine = hold(path)
            if mine is not None:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1
                mine.release()

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
