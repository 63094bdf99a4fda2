"""Table 2 of the super-ticket paper: the benchmark's submission, of the seed with the best average over tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.studies.artefact import Archive, Artefact, Cell, Table
from tombola.studies.evidence import MISSING
from tombola.tasks.submission import FILES, SubmissionFile, check_submission, file_text

if TYPE_CHECKING:
    from tombola.plan.step import Step
    from tombola.studies.study import Known
    from tombola.studies.super_tables import SuperTables

ARCHIVE = "glue-submission"


def submission(study: SuperTables, known: Known) -> tuple[Artefact, ...]:
    """The zip of what was really predicted, and a table of every file that the benchmark wants and how it stands."""
    steps = study.predictions(known)
    by_name = {study.problem_name(task): task for task in study.searches if study.benchmark_task(task)}
    files: dict[str, str] = {}
    lines = []
    for file in FILES.values():
        step = steps.get(by_name.get(file.task, ""))
        answers = None if step is None else known.json(step.out("answers.json"))
        there = answers.get(file.split) if answers else None
        if there is not None:
            files[file.name] = file_text(file.name, there)
        said = _state(study, by_name, file, step, there is not None)
        runs = (known.run(step),) if step is not None and there is not None else ()
        rows = MISSING if there is None else Cell(len(there), f"{len(there):,}", runs)
        lines.append(
            (
                Cell(file.name, file.name),
                Cell(file.task, file.task),
                rows,
                Cell(file.rows, f"{file.rows:,}"),
                Cell(said, said),
            )
        )
    checked = check_submission(files)
    seed = study.best_seed(known)
    notes = (
        "The seed whose tickets have the best average over tasks on the development sets: "
        + ("not known yet." if seed is None else f"seed {seed}."),
        *(f"Wrong: {problem}." for problem in checked.problems),
        f"The benchmark would still want {', '.join(checked.missing)}."
        if checked.missing
        else "The benchmark wants no other file.",
    )
    columns = ("file", "task", "predictions", "wanted", "state")
    table = Table("table-2", "The submission to GLUE (Table 2)", columns, tuple(lines), notes)
    if not files:
        return (table,)
    title = "Submission to GLUE (Table 2): super tickets of the best seed"
    return (table, Archive(ARCHIVE, title, tuple(files.items()), notes))


def _state(
    study: SuperTables, by_name: dict[str, str], file: SubmissionFile, step: Step | None, there: bool
) -> str:
    """Why a file is there or not."""
    if there:
        return "predicted"
    task = by_name.get(file.task)
    if task is None:
        return f"{file.task} is no task of this study"
    if file.split not in study.test_splits(task):
        return "its test file was not there to load"
    return "not predicted yet"
