"""Toy trainings for workers to preload, which may be stopped or killed at any moment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.engine import preload_toys

from tombola import files
from tombola.engine import performing
from tombola.plan.step import Step
from tombola.plan.steps import StepKind

STEPS = 100


def orderly(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Shows whether it was stopped between two of its steps or within one."""
    place = work.scratch / "last"
    for done in range(1, STEPS + 1):
        place.write_text(f"torn {done}")
        time.sleep(sources["seconds"] / STEPS)
        place.write_text(f"whole {done}")
        work.progress(done, STEPS, 0.0)
    work.write_json("value.json", {})


def patient(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Goes on from its last checkpoint, which no kill tears."""
    place = work.scratch / "done"
    done = int(place.read_text()) if place.exists() else 0
    while done < STEPS:
        time.sleep(sources["seconds"] / STEPS)
        done += 1
        files.write_bytes(place, str(done).encode())
        work.progress(done, STEPS, 0.0)
    work.write_json("value.json", {"value": parameters["value"]})


TOYS = {**preload_toys.TOYS, "orderly": StepKind(1, orderly), "patient": StepKind(1, patient)}
performing.STEPS = {**performing.STEPS, **TOYS}


def orderly_step() -> Step:
    return Step("orderly", 1, {}, sources={"seconds": 20}, label="orderly")


def patient_step(value: int, seconds: float) -> Step:
    sources = {"seconds": seconds}
    return Step("patient", 1, {"value": value}, sources=sources, label=f"patient {value}", cost=STEPS)
