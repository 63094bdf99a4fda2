"""What a caller leaves open: the recipe of a task, and the numerics of this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from tombola.errors import UsageError
from tombola.tasks.task import get_task
from tombola.training.recipe import Numerics, Recipe

MOST_THREADS = 8


def make_numerics(
    precision: str = "fp32", device: str = "auto", threads: int | None = None, **more: Any
) -> Numerics:
    """The numerics of this machine: ``auto`` takes a GPU if there is one, ``threads`` the cores, eight at most."""
    if device != "cpu":
        import torch

        there = torch.cuda.is_available()
        if device == "auto":
            device = "cuda" if there else "cpu"
        if device == "cuda" and not there:
            raise UsageError(
                "there is no CUDA device here", where="--device", todo="leave it out, or give cpu"
            )
    if threads is None:
        threads = 1 if device == "cuda" else min(_cores(), MOST_THREADS)
    return Numerics.from_json({"precision": precision, "device": device, "threads": threads, **more})


def make_recipe(task: str | None, **changes: Any) -> Recipe:
    """The task's own recipe (SPEC 2.4) with what the caller changed; None changes nothing."""
    if task is None:
        recipe = Recipe()
    else:
        defaults = get_task(task)
        recipe = Recipe(
            learning_rate=defaults.learning_rate,
            epochs=defaults.epochs,
            batch_size=defaults.batch_size,
            max_length=defaults.max_length,
        )
    return replace(recipe, **{key: value for key, value in changes.items() if value is not None})


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
