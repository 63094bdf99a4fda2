"""What a caller leaves open: the recipe of a task, and the numerics of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tombola.errors import UsageError
from tombola.tasks.task import get_task
from tombola.training.recipe import Numerics, Recipe

MOST_THREADS = 8
#: Dropout of the super-ticket paper's task heads, and of the tasks that have another (SPEC 3.4).
HEAD_DROPOUT = 0.1
HEAD_DROPOUTS = {"mnli": 0.3, "cola": 0.05}


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


def make_recipe(task: str | None, *, method: str | None = None, **changes: Any) -> Recipe:
    """The recipe of the task, as the paper of ``method`` has it, with what the caller changed; None changes nothing."""
    recipe = RECIPES.get(method or "", bert_ticket_recipe)(task)
    return replace(recipe, **{key: value for key, value in changes.items() if value is not None})


def bert_ticket_recipe(task: str | None) -> Recipe:
    """The task's own recipe (SPEC 2.4)."""
    if task is None:
        return Recipe()
    defaults = get_task(task)
    return Recipe(
        learning_rate=defaults.learning_rate,
        epochs=defaults.epochs,
        batch_size=defaults.batch_size,
        max_length=defaults.max_length,
    )


def super_recipe(task: str | None) -> Recipe:
    """The super-ticket paper's recipe for one task (SPEC 3.4): Adamax, at most 6 epochs, the best of them kept.

    The paper tries learning rates 5e-5, 1e-4, 2e-4 and batches of 8, 16, 32; the middle rate stands here.
    """
    return Recipe(
        learning_rate=1e-4,
        epochs=6,
        batch_size=32,
        optimizer="adamax",
        weight_decay=0.01,
        decay_exempt="bias_and_norm",
        bias_correction=False,
        warmup_share=0.1,
        max_length=Recipe.max_length if task is None else get_task(task).max_length,
        early_stopping=True,
        head_dropout=HEAD_DROPOUT if task is None else HEAD_DROPOUTS.get(get_task(task).name, HEAD_DROPOUT),
    )


#: The methods that are trained otherwise than the BERT-ticket paper does.
RECIPES: dict[str, Callable[[str | None], Recipe]] = {"super": super_recipe}


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
