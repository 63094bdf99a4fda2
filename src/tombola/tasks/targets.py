"""What the label column of a user's own file means: classes or numbers, found by looking.

Numbers with a decimal point are a regression; whole numbers of at most 20 different values are classes, of
more a regression; anything else is classes. ``kind`` decides where looking would be wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tombola.errors import DataError
from tombola.tasks.records import as_single
from tombola.tasks.table_file import Table
from tombola.tasks.task import Kind
from tombola.tasks.text_file import at

MOST_WHOLE_NUMBER_CLASSES = 20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,15}", re.ASCII)


@dataclass(frozen=True)
class LabelRule:
    """How labels are read: as numbers, or as these classes (spelled as ``class_name`` spells them)."""

    kind: Kind
    labels: tuple[str, ...]
    numeric: bool

    def read(self, table: Table, column: str) -> list[float]:
        """The targets of a table by this rule; a label that it does not know is an error with its row."""
        places = {label: position for position, label in enumerate(self.labels)}
        targets: list[float] = []
        for position, value in enumerate(table.columns[column]):
            if self.kind == "regression":
                targets.append(_number(value, table.at(position)))
                continue
            name = class_name(value, self.numeric)
            if name not in places:
                raise DataError(
                    f"the label '{name}' is not in the training data; known: {_listed(self.labels)}",
                    where=table.at(position),
                    todo="correct the label, or add examples of it to the training data",
                )
            targets.append(places[name])
        return targets


def find_rule(table: Table, column: str, kind: Kind | None) -> LabelRule:
    """Look at every label of the training data and say how to read them."""
    values = table.columns[column]
    for position, value in enumerate(values):
        if not isinstance(value, (str, int, float)):
            raise DataError(
                f"the label is of type {type(value).__name__}, neither text nor a number",
                where=table.at(position),
                todo="name another column with --label",
            )
    numbers = [_is_number(value) for value in values]
    numeric = all(numbers)
    names = {class_name(value, numeric) for value in values}
    if kind is None:
        _refuse_doubtful(table, column, numbers, names)
        few = all(map(_is_whole, values)) and len(names) <= MOST_WHOLE_NUMBER_CLASSES
        kind = "regression" if numeric and not few else "classification"
    if len(names) == 1:
        raise DataError(
            f"every row has the same label, '{next(iter(names))}'",
            where=at(table.path),
            todo="there is nothing to learn: add rows with other labels, or name another column with --label",
        )
    if kind == "regression":
        return LabelRule(kind, (), True)
    return LabelRule(
        kind, tuple(sorted(names, key=lambda name: (float(name) if numeric else 0.0, name))), numeric
    )


def class_name(value: Any, numeric: bool) -> str:
    """One spelling for one class: 1, "1", "01" and 1.0 are the same where all labels are numbers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not numeric or not _is_number(value):
        return str(value).strip()
    if _is_whole(value):
        return str(int(value))
    number = float(value)
    return str(int(number)) if number.is_integer() else repr(number)


def _refuse_doubtful(table: Table, column: str, numbers: Sequence[bool], names: set[str]) -> None:
    """Almost only numbers, or almost as many classes as rows: a mistake, not a task."""
    if all(numbers):
        return
    few = len(names) <= MOST_WHOLE_NUMBER_CLASSES
    mostly_numbers = sum(numbers) >= 0.9 * len(numbers)
    # One "n/a" among 0.5, 1.0, 1.5 must not turn scores into classes; 0, 1, "unknown" may well be classes.
    pointed = any(
        number and not _is_whole(value) for number, value in zip(numbers, table.columns[column], strict=True)
    )
    if few and not (mostly_numbers and pointed):
        return
    if mostly_numbers:
        position = numbers.index(False)
        raise DataError(
            f"the label {table.columns[column][position]!r} is not a number, though nearly all others are",
            where=table.at(position),
            todo="correct it, or force classes with --kind classification",
        )
    if len(names) > len(numbers) / 2:
        raise DataError(
            f"the column '{column}' has {len(names)} different labels in {len(numbers)} rows",
            where=at(table.path),
            todo="name the label column with --label, or force classes with --kind classification",
        )


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value.strip()) is not None
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 1e300
    return isinstance(value, float) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    if isinstance(value, str):
        return _WHOLE.fullmatch(value.strip()) is not None
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15


def _number(value: Any, where: str) -> float:
    if not _is_number(value):
        raise DataError(
            f"the label {value!r} is not a number", where=where, todo="correct or remove that row"
        )
    try:
        return as_single(float(value))
    except (DataError, OverflowError):
        raise DataError(f"the label {value!r} is too large", where=where, todo="scale the labels") from None


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(f"'{label}'" for label in labels[:10])
    return shown if len(labels) <= 10 else f"{shown} and {len(labels) - 10} more"
