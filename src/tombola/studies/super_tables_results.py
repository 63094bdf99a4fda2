"""The tables and the figure of the super-tables study, in the paper's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.studies.artefact import Artefact, Bar, BarPanel, Bars, Cell, Table
from tombola.studies.evidence import MISSING, Measure, Scores, difference_cells, percent, runs_table, signed
from tombola.studies.printed import SUPER_PRINTED, SuperPrinted
from tombola.studies.super_data_table import table_9
from tombola.studies.super_outcomes import PARTS, Part, Row, TaskOutcome, average
from tombola.studies.super_submission import submission
from tombola.verifying.significance import compare
from tombola.verifying.summary import fixed, summarize

if TYPE_CHECKING:
    from tombola.studies.study import Known
    from tombola.studies.super_tables import SuperTables

ROWS: dict[Row, str] = {"full": "full model", "ticket": "super ticket"}
AVERAGE = "average"
#: Table 1's files, by the part of the development set that they are told of.
TABLE_1: dict[Part, str] = {"dev": "table-1", "rest": "table-1-rest"}


def artefacts(study: SuperTables, known: Known) -> tuple[Artefact, ...]:
    """Everything the study gives, in the order of the paper."""
    tasks = study.tasks(known)
    printed = SUPER_PRINTED.get(study.recipe.model)
    rows = [
        (task.task, name, level, task.found.problem, row)
        for task in tasks
        for name, level, row in (
            ("full", 0.0, task.found.search.dense),
            *(("winning", level, row) for level, row in task.found.rows["winning"].items()),
        )
    ]
    return (
        *(table_1(study, tasks, part, printed) for part in TABLE_1),
        tickets_table(study, tasks),
        table_6(study, tasks, printed),
        table_7(study, tasks, printed),
        table_9(study, tasks),
        figure_3(study, tasks),
        *(submission(study, known) if study.recipe.submission else ()),
        runs_table(known, rows, share="level", when="development set"),
    )


def table_1(study: SuperTables, tasks: list[TaskOutcome], part: Part, printed: SuperPrinted | None) -> Table:
    """Table 1: every measure of every task, the average over tasks, remaining weight, paired t-tests."""
    places = [(task, measure) for task in tasks for measure in task.measures]
    found = {row: [task.scores(row, part, measure) for task, measure in places] for row in ROWS}
    averages = {row: average(tasks, row, part) for row in ROWS}
    remaining = _mean_remaining(tasks)
    lines = [
        _scores_line(ROWS["full"], [*found["full"], averages["full"]], Cell(1.0, "100%")),
        _scores_line(ROWS["ticket"], [*found["ticket"], averages["ticket"]], remaining, found["full"]),
    ]
    pairs = list(
        zip(
            [*found["ticket"], averages["ticket"]],
            [*found["full"], averages["full"]],
            strict=True,
        )
    )
    differences = [difference_cells(ticket, full) for ticket, full in pairs]
    for name, position in (("ticket − full", 0), ("95 % interval", 1), ("p, paired t-test", 2)):
        lines.append((Cell(name, name), *(cells[position] for cells in differences), MISSING))
    if printed is not None and part == "dev":
        lines += _printed_lines(printed, places)
    columns = ("", *(_measure_name(task, measure) for task, measure in places), AVERAGE, "remaining")
    notes = (
        f"Mean ± std (ddof 1) over {_seeds(study)}, each a whole search: its own full model, importance and level, "
        f"chosen on {percent(study.recipe.select_share)} of the development set. Scores are of {PARTS[part]}.",
        "average: the mean over tasks of the mean of a task's measures. remaining: the mean over tasks, of all "
        "parameters of the pre-trained model. Strong: above the full model.",
        *_further_sets(places, part),
        *_undecided(study, tasks),
    )
    title = "Full models and super tickets (Table 1)"
    return Table(TABLE_1[part], f"{title}: {PARTS[part]}", columns, tuple(lines), notes)


def tickets_table(study: SuperTables, tasks: list[TaskOutcome]) -> Table:
    """A row a task: the levels that the seeds chose, and the gain in the task's score by both parts."""
    lines = []
    for task in tasks:
        levels = task.levels
        chosen = ", ".join(percent(level) for level in levels.values()) if levels else None
        remaining = summarize(task.remaining) if task.remaining else None
        cells = [Cell(task.task, task.task), Cell(chosen, chosen) if chosen else MISSING]
        cells.append(_remaining_cell(remaining.mean, remaining.std) if remaining else MISSING)
        for part in TABLE_1:
            full, ticket = (task.scores(row, part, task.score) for row in ROWS)
            cells += [full.cell() if full else MISSING, ticket.cell() if ticket else MISSING]
            cells += difference_cells(ticket, full)
        lines.append(tuple(cells))
    told = ("full", "ticket", "difference", "95 % interval", "p")
    columns = (
        *("task", "levels chosen", "remaining"),
        *(f"{name}, {words}" for words in ("dev", "rest") for name in told),
    )
    notes = (
        f"By the task's score, the mean of its metrics. Levels in the order of {_seeds(study)}. dev: {PARTS['dev']}; "
        f"rest: {PARTS['rest']}. Paired by seed: paired t-test, bootstrap interval. No correction for the number of "
        "comparisons is made.",
    )
    return Table("tickets", "The super ticket of every task", columns, tuple(lines), notes)


def table_6(study: SuperTables, tasks: list[TaskOutcome], printed: SuperPrinted | None) -> Table:
    """Table 6: the std over seeds of each task's score."""
    lines = []
    for row, words in ROWS.items():
        found = [task.mean_scores(row, "dev") for task in tasks]
        lines.append((Cell(words, words), *(_std_cell(entry) for entry in found)))
    if printed is not None:
        stds = [printed.std.get(task.task) for task in tasks]
        cells = [MISSING if std is None else Cell(std, f"{std:.2f}") for std in stds]
        lines.append((Cell("printed", "printed in the paper"), *cells))
    columns = ("", *(task.task for task in tasks))
    notes = (
        f"Std (ddof 1) over {_seeds(study)} of the mean of the task's measures, the whole development set. A ticket's "
        "spans its whole search, the choice of the level included.",
    )
    return Table("table-6", "Standard deviation over seeds (Table 6)", columns, tuple(lines), notes)


def table_7(study: SuperTables, tasks: list[TaskOutcome], printed: SuperPrinted | None) -> Table:
    """Table 7: mean and std over seeds of the remaining weight of the chosen tickets."""
    found = [summarize(task.remaining) if task.remaining else None for task in tasks]
    cells = [_remaining_cell(each.mean, each.std) if each else MISSING for each in found]
    lines = [(Cell("super ticket", "super ticket"), *cells, _mean_remaining(tasks))]
    if printed is not None:
        of_task = [printed.remaining_of.get(task.task) for task in tasks]
        cells = [
            MISSING if pair is None else Cell(pair[0] / 100, f"{pair[0]:.0f}% ± {pair[1]:.0f}")
            for pair in of_task
        ]
        lines.append((Cell("printed", "printed in the paper"), *cells, MISSING))
    columns = ("", *(task.task for task in tasks), "mean")
    notes = (
        f"Of all parameters of the pre-trained model, embeddings included; mean ± std (ddof 1, points) over "
        f"{_seeds(study)}.",
    )
    return Table("table-7", "Remaining weight of super tickets (Table 7)", columns, tuple(lines), notes)


def figure_3(study: SuperTables, tasks: list[TaskOutcome]) -> Bars:
    """Figure 3: gain over the full model and remaining weight, a bar a task."""
    gains = [
        *(_gain_bar(task.task, *(task.mean_scores(row, "dev") for row in ROWS)) for task in tasks),
        _gain_bar(AVERAGE, *(average(tasks, row, "dev") for row in ROWS)),
    ]
    weights = []
    for task in tasks:
        if not task.remaining:
            weights.append(Bar(task.task, None, "–"))
            continue
        summary = summarize(task.remaining)
        std = 100 * (summary.std or 0.0)
        mean = 100 * summary.mean
        runs = tuple(step.identity for step in task.found.search.choices.values())
        weights.append(Bar(task.task, mean, f"{fixed(mean, 1)}%", mean - std, mean + std, runs))
    total = _mean_remaining(tasks).value
    mean = None if total is None else 100 * float(total)
    weights.append(Bar(AVERAGE, mean, "–" if mean is None else f"{fixed(mean, 1)}%"))
    return Bars(
        "figure-3",
        "Super tickets: gain and weight (Figure 3)",
        (
            BarPanel("Super ticket − full model", "points", tuple(gains)),
            BarPanel("Remaining weight", "% of all parameters", tuple(weights)),
        ),
        (
            f"Means over {_seeds(study)}; the mean of the task's measures, the whole development set. Error bars: 95 % "
            "bootstrap interval of the paired gain; ± std of the remaining weight.",
        ),
    )


def _scores_line(
    name: str, found: list[Scores | None], remaining: Cell, against: list[Scores | None] | None = None
) -> tuple[Cell, ...]:
    """A row of mean ± std; strong where it is above the row that it stands against."""
    others = [*against, None] if against else [None] * len(found)
    cells = [
        MISSING
        if entry is None
        else entry.cell(strong=other is not None and entry.summary.mean > other.summary.mean)
        for entry, other in zip(found, others, strict=True)
    ]
    return (Cell(name, name), *cells, remaining)


def _printed_lines(
    printed: SuperPrinted, places: list[tuple[TaskOutcome, Measure]]
) -> list[tuple[Cell, ...]]:
    """What the paper prints of this model."""
    lines = []
    told = (printed.full, printed.ticket)
    # Averages over other tasks than the paper's would stand beside ours as if they were the same.
    whole = {task.task for task, _ in places} == set(printed.full)
    for (row, words), by_task, mean in zip(ROWS.items(), told, printed.averages, strict=True):
        cells = []
        for task, measure in places:
            values = by_task.get(task.task, ())
            position = task.measures.index(measure)
            cells.append(
                Cell(values[position], f"{values[position]:.1f}") if position < len(values) else MISSING
            )
        remaining = 100.0 if row == "full" else printed.remaining
        lines.append(
            (
                Cell(f"{words}, printed", f"{words}, printed"),
                *cells,
                Cell(mean, f"{mean:.1f}") if whole else MISSING,
                Cell(remaining / 100, f"{remaining:g}%") if whole else MISSING,
            )
        )
    return lines


def _measure_name(task: TaskOutcome, measure: Measure) -> str:
    return f"{task.task} {measure.name}"


def _gain_bar(label: str, full: Scores | None, ticket: Scores | None) -> Bar:
    if full is None or ticket is None:
        return Bar(label, None, "–")
    found = compare(list(ticket.values), list(full.values))
    mean = found.difference.mean
    runs = (*ticket.runs, *full.runs)
    return Bar(label, mean, signed(mean), found.interval.low, found.interval.high, runs)


def _std_cell(found: Scores | None) -> Cell:
    if found is None or found.summary.std is None:
        return MISSING
    return Cell(found.summary.std, f"{found.summary.std:.2f}", found.runs)


def _remaining_cell(mean: float, std: float | None) -> Cell:
    spread = "" if std is None else f" ± {fixed(100 * std, 1)}"
    return Cell(mean, f"{fixed(100 * mean, 1)}%{spread}")


def _mean_remaining(tasks: list[TaskOutcome]) -> Cell:
    """The mean over tasks of the mean over seeds (SPEC 3.4)."""
    means = [sum(task.remaining) / len(task.remaining) for task in tasks if task.remaining]
    if not means or len(means) < len(tasks):
        return MISSING
    return _remaining_cell(sum(means) / len(means), None)


def _further_sets(places: list[tuple[TaskOutcome, Measure]], part: Part) -> tuple[str, ...]:
    there = [_measure_name(task, measure) for task, measure in places if measure.split != "dev"]
    if part == "dev" or not there:
        return ()
    return (f"No choice saw these sets, so all of them count: {', '.join(there)}.",)


def _undecided(study: SuperTables, tasks: list[TaskOutcome]) -> tuple[str, ...]:
    there = {task.task for task in tasks}
    waiting = [task for task in study.searches if task not in there]
    return (f"Not planned yet, their grid is not done: {', '.join(waiting)}.",) if waiting else ()


def _seeds(study: SuperTables) -> str:
    seeds = study.recipe.seeds
    return f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))})"
