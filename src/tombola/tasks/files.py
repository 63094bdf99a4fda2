"""A task from a user's own file: ``--data train.csv [--eval-data dev.csv] --text a [--text-pair b] --label
y``.

Without ``--eval-data`` a seeded, stratified tenth of the rows becomes dev; the rule is part of the
fingerprint. Nothing is ever written, and a file that cannot be meant is refused with its row before anything
is trained.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from tombola.errors import DataError, UsageError
from tombola.tasks.records import Records
from tombola.tasks.splitting import stratified_split
from tombola.tasks.table_file import Table, column_names, read_table
from tombola.tasks.targets import LabelRule, find_rule
from tombola.tasks.task import DataOptions, Kind, Task, TaskData
from tombola.tasks.text_file import at

SPLIT_SEED = 0
SPLIT_RULE = f"stratified split, 10 % for dev, seed {SPLIT_SEED}"
#: What a text or label column is called if the user does not say.
USUAL_TEXT = ("text", "sentence", "sentence1")
USUAL_LABEL = ("label",)
METRICS: dict[str, tuple[str, ...]] = {"classification": ("accuracy",), "regression": ("pearson", "spearman")}


def load_files(options: DataOptions) -> TaskData:
    """Train and dev of a user's own files, and the task that they make."""
    if options.data is None:
        raise UsageError("no file is named", where="--data", todo="give --data FILE")
    kind = _kind(options.kind)
    texts, label = _columns(options)
    table = _read(options.data, texts, label, "the data file")
    rule = find_rule(table, label, kind)
    task = _task(options.data, texts, label, rule)
    train = _records(table, "train", texts, label, rule)
    if options.eval_data is not None:
        held_out = _read(options.eval_data, texts, label, "the file for evaluation")
        return TaskData(task, train, _records(held_out, "dev", texts, label, rule))
    dev_size = max(1, (len(train) + 5) // 10)
    if dev_size >= len(train):
        raise DataError(
            f"{len(train)} row is too few to train and evaluate on", where=at(options.data), todo="add rows"
        )
    where = at(options.data)
    return TaskData(task, *stratified_split(train, dev_size, seed=SPLIT_SEED, rule=SPLIT_RULE, where=where))


def _kind(kind: str | None) -> Kind | None:
    if kind is None or kind == "classification" or kind == "regression":
        return kind
    raise UsageError(f"there is no kind '{kind}'", where="--kind", todo="'classification' or 'regression'")


def _columns(options: DataOptions) -> tuple[tuple[str, ...], str]:
    """The names of the text columns and of the label column; unnamed ones by their usual names."""
    data = options.data or Path()
    names = column_names(data)
    text = options.text or _usual(names, USUAL_TEXT, "--text", data)
    label = options.label or _usual(names, USUAL_LABEL, "--label", data)
    texts = (text,) if options.text_pair is None else (text, options.text_pair)
    if len({*texts, label}) != len(texts) + 1:
        raise UsageError(
            f"the same column is named twice: {', '.join([*texts, label])}",
            where="--text, --text-pair, --label",
        )
    return texts, label


def _usual(names: list[str], usual: tuple[str, ...], option: str, path: Path) -> str:
    for name in usual:
        if name in names:
            return name
    listed = ", ".join(repr(name) for name in names)
    raise DataError(
        f"{option} is not given and there is no column '{usual[0]}'; the columns are {listed}",
        where=at(path, 1),
        todo=f"name one with {option}",
    )


def _read(path: Path, texts: tuple[str, ...], label: str, what: str) -> Table:
    table = read_table(path, [*texts, label], what)
    for name in (*texts, label):
        for position, value in enumerate(table.columns[name]):
            if _is_missing(value):
                raise DataError(
                    f"'{name}' is empty", where=table.at(position), todo="fill it in or remove the row"
                )
    for name in texts:
        _check_text(table, name)
    return table


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _check_text(table: Table, name: str) -> None:
    """Text is text: not numbers (a wrong column), not lists, and nothing that UTF-8 cannot hold."""
    todo = "name the column that holds the text with --text or --text-pair"
    numbers = 0
    for position, value in enumerate(table.columns[name]):
        if not isinstance(value, str):
            raise DataError(
                f"'{name}' is of type {type(value).__name__}, not text: {value!r}",
                where=table.at(position),
                todo=todo,
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            what = f"'{name}' holds half of a surrogate pair"
            raise DataError(what, where=table.at(position), todo="repair the text") from None
        numbers += value.strip().replace(".", "", 1).lstrip("+-").isdecimal()
    if numbers == len(table):
        raise DataError(f"'{name}' holds only numbers, not text", where=table.at(0), todo=todo)


def _records(table: Table, split: str, texts: tuple[str, ...], label: str, rule: LabelRule) -> Records:
    second = tuple(table.columns[texts[1]]) if len(texts) == 2 else None
    targets = tuple(rule.read(table, label))
    return Records(split, tuple(table.columns[texts[0]]), second, targets, rule.labels, rule="files as given")


def _task(path: Path, texts: tuple[str, ...], label: str, rule: LabelRule) -> Task:
    """The papers' recipe for the user's data; the name says that it is none of the shipped tasks."""
    stem = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "data"
    found = f"{len(rule.labels)} classes" if rule.labels else "numbers"
    return Task(
        name=f"own-{stem}",
        kind=rule.kind,
        labels=rule.labels,
        text_fields=texts,
        metrics=METRICS[rule.kind],
        source="file",
        about=f"one's own file {path.name}: '{label}' holds {found}",
        notes="" if rule.labels else "If these numbers are classes, say --kind classification.",
    )
