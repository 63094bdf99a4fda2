"""The tables and the figure of the existence study, in the papers' layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.studies.artefact import Artefact, Cell, Curve, Curves, Panel, Table
from tombola.studies.evidence import (
    MISSING,
    Scores,
    difference_cells,
    percent,
    primary,
    runs_table,
    scores,
    share_cell,
)
from tombola.studies.printed import HUGGING_FACE
from tombola.verifying.criteria import Criterion, degenerate

if TYPE_CHECKING:
    from tombola.studies.existence import Existence
    from tombola.studies.study import Known

#: The papers' tables by the criterion that they use.
TABLES = {"within_one_std": "table-2", "match_or_exceed": "table-4"}
ROW_NAMES = {"full": "full model", "imp": "IMP ticket"}


def artefacts(study: Existence, known: Known) -> tuple[Artefact, ...]:
    """Everything the study gives, in the order of the paper."""
    rows = [
        (task, name, share, study.searches[task].problem, row)
        for task, name, share, row in study.every_row(known)
    ]
    return (
        *(winning_table(study, known, criterion) for criterion in study.criteria),
        table_5(study, known),
        # Of tasks with one metric each there is nothing more to tell.
        *(table for table in (table_6(study, known),) if table.rows),
        figure_11(study, known),
        comparisons(study, known),
        runs_table(known, rows),
    )


def winning_table(study: Existence, known: Known, criterion: Criterion) -> Table:
    """Tables 2 and 4: each task's highest winning sparsity by a criterion, and every row's score there."""
    tasks = list(study.searches)
    at = {task: study.winning(known, task, criterion) for task in tasks}
    lines = [(Cell("winning sparsity", "winning sparsity"), *(share_cell(at[task]) for task in tasks))]
    method = next(iter(study.searches.values())).method
    for name in ("full", method, *study.recipe.controls):
        label = ROW_NAMES.get(name, name)
        cells = []
        for task in tasks:
            found = _scores(study, known, task, name, at[task])
            cells.append(found.cell(strong=name == method) if found else MISSING)
        lines.append((Cell(label, label), *cells))
    lost = [task for task in tasks if _degenerate(study, known, task)]
    won = [task for task in tasks if at[task] is not None]
    notes = [
        f"Winning by {criterion}; mean ± std (ddof 1) over {_seeds(study)}, each a whole search. {_metrics(study)}",
        f"{len(won)} of {len(tasks)} tasks have a winning ticket on the grid "
        f"({', '.join(percent(share) for share in study.searches[tasks[0]].settings.sparsities)})"
        + (
            f"; without the degenerate ones {len(set(won) - set(lost))} of {len(tasks) - len(lost)}."
            if lost
            else "."
        ),
    ]
    notes += [
        f"{task} is degenerate: its full model is no better than the majority class "
        f"({study.searches[task].problem.task.majority:.1f}); a ticket that matches it says nothing."
        for task in lost
    ]
    columns = ("", *(f"{task} †" if task in lost else task for task in tasks))
    return Table(
        _name(criterion), f"Highest winning sparsity by {criterion}", columns, tuple(lines), tuple(notes)
    )


def table_5(study: Existence, known: Known) -> Table:
    """Table 5: mean, median and best of the seeds, at the winning sparsity of the first criterion."""
    criterion = study.criteria[0]
    lines = []
    for task, search in study.searches.items():
        at = study.winning(known, task, criterion)
        for name, share in (("full", 0.0), (search.method, at)):
            found = _scores(study, known, task, name, at)
            summary = found.summary if found else None
            runs = found.runs if found else ()
            cells = [
                Cell(task, task),
                Cell(ROW_NAMES.get(name, name), ROW_NAMES.get(name, name)),
                share_cell(share),
            ]
            cells.append(found.cell() if found else MISSING)
            for value in (summary.median, summary.best) if summary else (None, None):
                cells.append(MISSING if value is None else Cell(value, f"{value:.1f}", runs))
            cells.append(Cell(summary.n, str(summary.n)) if summary else MISSING)
            printed = (
                HUGGING_FACE.get(task)
                if name == "full" and search.problem.model.name in PRINTED_FOR
                else None
            )
            cells.append(MISSING if printed is None else Cell(printed, f"{printed:.2f}"))
            lines.append(tuple(cells))
    columns = ("task", "row", "sparsity", "mean ± std", "median", "best", "n", "HuggingFace")
    notes = (
        f"At the winning sparsity by {criterion}. The last column is printed in the paper, for BERT-base only.",
    )
    return Table("table-5", "Mean, median and best of the seeds", columns, tuple(lines), notes)


#: The reference numbers are of this model and of no other.
PRINTED_FOR = ("bert-base-uncased", "google-bert/bert-base-uncased")


def table_6(study: Existence, known: Known) -> Table:
    """Table 6: tasks with more than one measure, the criterion applied to each of them."""
    criterion = study.criteria[0]
    lines = []
    for task, search in study.searches.items():
        found = study.measures(known, task)
        for measure in found if len(found) > 1 else ():
            at = study.winning(known, task, criterion, measure)
            ticket = scores(known, search.retrained[at], measure) if at is not None else None
            full = scores(known, search.dense, measure)
            lines.append(
                (
                    Cell(task, task),
                    Cell(measure.name, measure.name),
                    share_cell(at),
                    full.cell() if full else MISSING,
                    ticket.cell(strong=True) if ticket else MISSING,
                )
            )
    columns = ("task", "metric", "winning sparsity", "full model", "ticket")
    notes = (f"Winning by {criterion}, applied to each metric by itself.",)
    return Table("table-6", "Every metric of the tasks that have several", columns, tuple(lines), notes)


def figure_11(study: Existence, known: Known) -> Curves:
    """Figure 11: score against sparsity, a panel a task; the full model stands at 0 %."""
    panels = []
    for task, search in study.searches.items():
        measure = primary(search.problem)
        full = scores(known, search.dense, measure)
        rows = [(search.method, sparsity) for sparsity in search.retrained]
        rows += [(name, at) for name in study.recipe.controls for at in study.control_sparsities(known, task)]
        curves = []
        for name in (search.method, *study.recipe.controls):
            points = [(0.0, full)] if name == search.method else []
            points += [(at, _scores(study, known, task, name, at)) for row, at in rows if row == name]
            curves.append(_curve(ROW_NAMES.get(name, name), points))
        # No better than this level means nothing learned; a correlation has none but 0.
        panels.append(
            Panel(
                task,
                measure.name,
                tuple(curve for curve in curves if curve.x),
                (
                    search.problem.task.majority,
                    "majority class" if search.problem.task.labels else "no correlation",
                ),
            )
        )
    notes = [f"Mean and ± std over {_seeds(study)}, each a whole search; development set, last step."]
    if study.recipe.controls_at == "winning":
        notes.append("Controls were trained at winning sparsities only.")
    return Curves("figure-11", "Score against sparsity", "sparsity", tuple(panels), tuple(notes))


def comparisons(study: Existence, known: Known) -> Table:
    """Ticket − full and ticket − control at every sparsity, paired by seed."""
    lines = []
    for task, name, sparsity, row in study.every_row(known):
        search = study.searches[task]
        measure = primary(search.problem)
        against = "full" if name == search.method else name
        if name == "full":
            continue
        ticket = scores(known, search.retrained[sparsity], measure)
        other = scores(known, search.dense if name == search.method else row, measure)
        lines.append(
            (
                Cell(task, task),
                Cell(sparsity, percent(sparsity)),
                Cell(against, ROW_NAMES.get(against, against)),
                ticket.cell() if ticket else MISSING,
                other.cell() if other else MISSING,
                *difference_cells(ticket, other),
            )
        )
    columns = ("task", "sparsity", "against", "ticket", "other", "ticket − other", "95 % interval", "p")
    notes = (
        f"Paired by seed over {_seeds(study)}: paired t-test, bootstrap interval. "
        "No correction for the number of comparisons is made.",
    )
    return Table(
        "comparisons", "The ticket against the full model and the controls", columns, tuple(lines), notes
    )


def _scores(study: Existence, known: Known, task: str, name: str, sparsity: float | None) -> Scores | None:
    """A row's scores at a sparsity; the full model's whatever the sparsity."""
    search = study.searches[task]
    measure = primary(search.problem)
    if name == "full":
        return scores(known, search.dense, measure)
    if sparsity is None:
        return None
    if name == search.method:
        return scores(known, search.retrained[sparsity], measure)
    return scores(known, study.control_row(search, name, sparsity), measure)


def _degenerate(study: Existence, known: Known, task: str) -> bool:
    search = study.searches[task]
    full = scores(known, search.dense, primary(search.problem))
    return full is not None and degenerate(full.values, search.problem.task.majority)


def _curve(label: str, points: list[tuple[float, Scores | None]]) -> Curve:
    there = [(x, found) for x, found in points if found is not None]
    return Curve(
        label,
        tuple(x for x, _ in there),
        tuple(found.summary.mean for _, found in there),
        tuple(found.summary.std for _, found in there),
        tuple(found.runs for _, found in there),
    )


def _name(criterion: Criterion) -> str:
    written = str(criterion)
    return TABLES.get(
        written, f"table-winning-{written.replace(':', '-').replace('_', '-').replace('.', '-')}"
    )


def _seeds(study: Existence) -> str:
    seeds = study.recipe.seeds
    return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))})"


def _metrics(study: Existence) -> str:
    named = [f"{task} {primary(search.problem).name}" for task, search in study.searches.items()]
    return f"Metrics: {', '.join(named)}; development set, last step."
