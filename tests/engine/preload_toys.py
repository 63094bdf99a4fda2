"""Toy steps for worker processes, which no monkeypatch of a test reaches: a module to be preloaded."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.engine import toy_steps

from tombola import files
from tombola.engine import performing
from tombola.plan.step import Step
from tombola.plan.steps import StepKind


def mortal(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Is killed in its middle so many times, then succeeds: what a failing machine would do."""
    deaths = work.scratch / "deaths"
    so_far = int(deaths.read_text()) if deaths.exists() else 0
    if so_far < sources["deaths"]:
        deaths.write_text(str(so_far + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    work.write_json("value.json", {"value": parameters["value"]})


def broken(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    raise ValueError("this step is broken")


def hungry(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Has memory for two examples at a time."""
    if (parameters["numerics"]["micro_batch"] or parameters["recipe"]["batch_size"]) > 2:
        raise MemoryError
    work.write_json("value.json", {"value": parameters["numerics"]["micro_batch"]})


def napping(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """A hundred little steps with a checkpoint after each; tells in its result how often it was resumed."""
    place = work.scratch / "done"
    done = int(place.read_text()) if place.exists() else 0
    while done < 100:
        time.sleep(sources["seconds"] / 100)
        done += 1
        files.write_bytes(place, str(done).encode())  # a kill must not leave half of it
        if work.progress is not None:
            work.progress(done, 100, 0.0)
    work.write_json("value.json", {"value": parameters["value"]})


TOYS = {
    **toy_steps.TOYS,
    "mortal": StepKind(1, mortal),
    "broken": StepKind(1, broken),
    "hungry": StepKind(1, hungry),
    "napping": StepKind(1, napping),
}
performing.STEPS = {**performing.STEPS, **TOYS}


def mortal_step(value: int, deaths: int) -> Step:
    return Step("mortal", 1, {"value": value}, sources={"deaths": deaths}, label=f"mortal {value}")


def broken_step() -> Step:
    return Step("broken", 1, {}, label="broken")


def hungry_step(batch_size: int) -> Step:
    parameters = {"recipe": {"batch_size": batch_size}, "numerics": {"micro_batch": 0}}
    return Step("hungry", 1, parameters, label="hungry")


def napping_step(value: int, seconds: float) -> Step:
    return Step("napping", 1, {"value": value}, sources={"seconds": seconds}, label=f"nap {value}", cost=100)
