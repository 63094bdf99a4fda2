"""Table 9 of the super-ticket paper: the data sets, with what was really loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.studies.artefact import Cell, Table
from tombola.studies.evidence import MISSING
from tombola.verifying.summary import fixed

if TYPE_CHECKING:
    from tombola.studies.super_outcomes import TaskOutcome
    from tombola.studies.super_tables import SuperTables


def table_9(study: SuperTables, tasks: list[TaskOutcome]) -> Table:
    """Task, sizes, labels, metrics: of the records that these trainings had."""
    lines = []
    for name, grid in study.searches.items():
        task = grid.problems[0].task
        further = {split: int(str(facts["examples"])) for split, facts in study.further[name].items()}
        beside = ", ".join(f"{split} {count:,}" for split, count in further.items() if split != "test")
        lines.append(
            (
                Cell(name, name),
                Cell(task.kind, task.kind),
                Cell(len(task.labels), ", ".join(task.labels)) if task.labels else Cell(None, "numbers"),
                *(_count(count) for count in (task.train_examples, task.dev_examples, further.get("test"))),
                Cell(beside, beside) if beside else MISSING,
                Cell(", ".join(task.metrics), ", ".join(task.metrics)),
                Cell(task.majority, fixed(task.majority, 1)),
            )
        )
    columns = (
        *("task", "kind", "labels", "train", "dev", "test", "further sets", "metrics", "majority class"),
    )
    notes = (
        "Examples that were loaded, after max_train and max_eval; test sets have no labels and take no part. majority "
        "class: the first metric of a model that says the same of every example.",
    )
    return Table("table-9", "The data sets (Table 9)", columns, tuple(lines), notes)


def _count(count: int | None) -> Cell:
    return MISSING if count is None else Cell(count, f"{count:,}")
