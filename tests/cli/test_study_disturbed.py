"""``tombola study`` in processes of its own, disturbed: Ctrl-C, SIGKILL, two at once, a clean-up beside it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.test_study import EXISTENCE

from tombola.engine import attempts
from tombola.engine.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recipe(tiny_bert, sentences, tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "exists.yaml"
    path.write_text(EXISTENCE.format(model=tiny_bert, data=sentences).replace("epochs: 1", "epochs: 12"))
    return path


def start(recipe, place, *arguments: str, verb: str = "study") -> subprocess.Popen[str]:
    given = (
        ("study", str(recipe), "--engine", "local", "--out", str(place / "out")) if verb == "study" else ()
    )
    return subprocess.Popen(
        [sys.executable, "-m", "tombola", *given, *arguments, "--store", str(place / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def results(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((place / "out").iterdir())}


def kept(place: Path) -> dict[str, bytes]:
    store = Store(place / "store")
    found = {}
    for identity in store:
        run = store.run(identity)
        assert run is not None
        for name, output in run.outputs.items():
            if not output.transient:
                found[f"{identity}/{name}"] = (run.folder / name).read_bytes()
    return found


@pytest.fixture(scope="module")
def undisturbed(recipe, tmp_path_factory):
    place = tmp_path_factory.mktemp("undisturbed")
    finish(start(recipe, place, "--workers", "2"))
    return results(place), kept(place)


def finished_twice(place: Path) -> list[str]:
    """Steps that began again after they had finished, but to make a dropped output again."""
    done: set[str] = set()
    twice = []
    for entry in attempts.read(place / "store"):
        if entry["event"] == "finished":
            done.add(entry["run"])
        elif entry["event"] == "began" and entry["run"] in done and "recompute" not in entry:
            twice.append(entry["run"])
    return twice


def some_way(place: Path, steps: int, process: subprocess.Popen[str]) -> None:
    """Until so many steps have begun."""
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        if sum(entry["event"] == "began" for entry in attempts.read(place / "store")) >= steps:
            return
        time.sleep(0.05)


def assert_as_undisturbed(place: Path, undisturbed: tuple[dict[str, bytes], dict[str, bytes]]) -> None:
    assert results(place) == undisturbed[0]
    assert kept(place) == undisturbed[1]
    assert finished_twice(place) == []


def test_ctrl_c_and_start_again(recipe, tmp_path, undisturbed):
    process = start(recipe, tmp_path, "--workers", "2")
    some_way(tmp_path, 6, process)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode not in (0, 2), said
    assert "type the same command again" in said
    assert "Traceback" not in said
    finish(start(recipe, tmp_path, "--workers", "2"))
    assert_as_undisturbed(tmp_path, undisturbed)


def test_killed_again_and_again(recipe, tmp_path, undisturbed):
    draw = random.Random(time.time_ns())
    for round_number in range(4):
        process = start(recipe, tmp_path, "--workers", "2")
        some_way(tmp_path, 5 * (round_number + 1), process)
        time.sleep(draw.uniform(0, 1))
        process.kill()
        process.communicate()
    finish(start(recipe, tmp_path, "--workers", "2"))
    assert_as_undisturbed(tmp_path, undisturbed)


def test_two_studies_at_once_and_a_clean_up_beside_them(recipe, tmp_path, undisturbed):
    one = start(recipe, tmp_path, "--workers", "1")
    other = start(recipe, tmp_path, "--workers", "1")
    sweeps = 0
    while one.poll() is None or other.poll() is None:
        finish(start(recipe, tmp_path, "store", "gc", verb="store"))
        sweeps += 1
    finish(one)
    finish(other)
    assert sweeps > 2
    assert_as_undisturbed(tmp_path, undisturbed)
