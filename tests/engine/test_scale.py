"""Studies of thousands of runs: planned, asked for and answered in seconds, in the memory of a small machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engine.faults import in_memory

__all__ = ["in_memory"]

QUESTIONS = ("glance, nothing done", "estimate, nothing done", "glance, all done", "estimate, all done")


def measure(steps: int, store: Path, model: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.engine.scale", str(steps), str(store), str(model)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(told, indent=1))
    assert told["steps"] >= steps
    return told


def test_five_thousand_steps_a_finished_study_answers_in_under_a_second(in_memory, tiny_bert):
    told = measure(5_000, in_memory / "store", tiny_bert)
    assert told["brought about, all done"] < 1.0
    assert told["plan"] < 1.5
    for question in QUESTIONS:
        assert told[question] < 0.5, question


@pytest.mark.slow
def test_a_hundred_thousand_steps(in_memory, tiny_bert):
    told = measure(100_000, in_memory / "store", tiny_bert)
    assert told["plan"] < 10
    for question in QUESTIONS:
        assert told[question] < 5, question
    assert told["megabytes at most"] < 500
