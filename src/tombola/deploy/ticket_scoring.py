"""The development set on which an exported model is scored: that of the ticket's own task, or a named one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tombola.deploy.quantisation import Scoring
from tombola.deploy.subject import Subject
from tombola.errors import UsageError
from tombola.tasks.task import DataOptions, TaskData, load_task


def scoring_of(
    subject: Subject,
    tokenizer: Any,
    *,
    task: str | None = None,
    options: DataOptions | None = None,
    max_length: int | None = None,
) -> tuple[Scoring, bool | None]:
    """The scoring, and whether its records are the very ones the ticket was found on (None: it does not say)."""
    options = options or DataOptions()
    told = (subject.ticket.task if subject.ticket is not None else None) or {}
    if task is None and options.data is None:
        task = _own_task(told)
        options = replace(
            options, max_train=told.get("max_train"), max_eval=options.max_eval or told.get("max_eval")
        )
    data = load_task(task, options)
    _check_outputs(subject, data)
    length = max_length or _own_length(subject) or data.task.max_length
    found_on = told.get("fingerprint")
    return Scoring.of(data, tokenizer, length), None if found_on is None else found_on == data.fingerprint


def _own_task(told: Any) -> str:
    name = told.get("name")
    if not isinstance(name, str) or told.get("own_files"):
        raise UsageError(
            "the accuracy cannot be measured: nothing says which data the model is for",
            where="--quantize",
            todo="name them: --task NAME, or --data FILE --text … --label …",
        )
    return name


def _own_length(subject: Subject) -> int | None:
    recipe = subject.ticket.settings.get("recipe") if subject.ticket is not None else None
    length = recipe.get("max_length") if isinstance(recipe, dict) else None
    return length if isinstance(length, int) and length > 0 else None


def _check_outputs(subject: Subject, data: TaskData) -> None:
    wanted = len(data.task.labels) or 1
    found = getattr(subject.model.config, "num_labels", None)
    if "ForSequenceClassification" not in type(subject.model).__name__ or found != wanted:
        raise UsageError(
            f"{type(subject.model).__name__} has {found} outputs, the task {data.task.name} wants {wanted}",
            where="--task",
            todo="name the task that the model was trained on",
        )
