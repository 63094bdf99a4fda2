"""Evidence: the scores of planned trainings, read seed by seed, and the cells of tables that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tombola.plan.problem import Problem
from tombola.plan.step import Step
from tombola.studies.artefact import Cell, Table
from tombola.studies.study import Known
from tombola.verifying.criteria import Criterion, highest_winning
from tombola.verifying.significance import compare
from tombola.verifying.summary import Summary, fixed, summarize

#: One row of a table: the trainings of all seeds.
BySeed = Mapping[int, Step]
MISSING = Cell(None, "–")
#: The mean of a task's metrics, which is its score for super tickets (SPEC 3.3).
MEAN = "mean"


@dataclass(frozen=True)
class Measure:
    """One number of a training: a metric, or the mean of all, on a split (MNLI has two development sets)."""

    metric: str
    split: str = "dev"

    def read(self, metrics: Mapping[str, Any]) -> float:
        """Its value in a training's ``metrics.json``."""
        found = metrics[self.split]
        return float(sum(found.values()) / len(found) if self.metric == MEAN else found[self.metric])

    @property
    def name(self) -> str:
        return self.metric if self.split == "dev" else f"{self.metric}, {self.split.removeprefix('dev_')}"


@dataclass(frozen=True)
class Scores:
    """One measure of a row over its seeds, with the runs it was read from."""

    values: tuple[float, ...]
    runs: tuple[str, ...]

    @property
    def summary(self) -> Summary:
        return summarize(self.values)

    def cell(self, *, strong: bool = False) -> Cell:
        """``82.4 ± 0.5`` and where it comes from."""
        return Cell(self.summary.mean, self.summary.text(), self.runs, strong)


def primary(problem: Problem) -> Measure:
    """The measure that decides."""
    return Measure(problem.task.metrics[0])


def measures(problem: Problem, known: Known, row: BySeed) -> tuple[Measure, ...]:
    """Every measure of a task: the metrics on its development set, the first one on its further sets."""
    found = [Measure(metric) for metric in problem.task.metrics]
    metrics = next((known.metrics(step) for step in row.values()), None) or {}
    # dev_share and dev_rest are parts of the development set, told of trainings that stop early.
    further = [name for name in metrics if name.startswith("dev_") and name not in ("dev_share", "dev_rest")]
    return (*found, *(Measure(problem.task.metrics[0], name) for name in sorted(further)))


def scores(known: Known, row: BySeed, measure: Measure) -> Scores | None:
    """The scores of a row, None while a seed is missing: a mean over fewer seeds would be another number."""
    values, runs = [], []
    for step in row.values():
        metrics = known.metrics(step)
        if metrics is None:
            return None
        values.append(measure.read(metrics))
        runs.append(known.run(step))
    return Scores(tuple(values), tuple(runs))


def winning_sparsity(
    known: Known, full: BySeed, tickets: Mapping[float, BySeed], measure: Measure, criterion: Criterion
) -> float | None:
    """The highest sparsity of the grid that wins; None where none does, or where a score is missing."""
    dense = scores(known, full, measure)
    found = {sparsity: scores(known, row, measure) for sparsity, row in tickets.items()}
    if dense is None or any(entry is None for entry in found.values()):
        return None
    judged = {sparsity: entry.values for sparsity, entry in found.items() if entry is not None}
    if criterion.undecidable(dense.values, dense.values):
        return None
    return highest_winning(dense.values, judged, criterion)


def all_known(known: Known, rows: list[BySeed]) -> bool:
    return all(known.metrics(step) is not None for row in rows for step in row.values())


def difference_cells(ticket: Scores | None, other: Scores | None) -> tuple[Cell, Cell, Cell]:
    """ticket − other, paired by seed: mean difference, 95 % interval, p of the paired t-test."""
    if ticket is None or other is None or len(ticket.values) < 2:
        return MISSING, MISSING, MISSING
    found = compare(list(ticket.values), list(other.values))
    low, high, p_value = found.interval.low, found.interval.high, found.t_test.p_value
    mean = found.difference.mean
    return (
        Cell(mean, signed(mean), (*ticket.runs, *other.runs)),
        MISSING if low is None or high is None else Cell(f"[{low}, {high}]", f"[{low:+.1f}, {high:+.1f}]"),
        MISSING if p_value is None else Cell(p_value, "<.001" if p_value < 0.001 else f"{p_value:.3f}"),
    )


def signed(value: float) -> str:
    """``+1.2``, ``-0.3``, and 0.0 without a sign."""
    text = fixed(value, 1)
    return text if text.startswith("-") or float(text) == 0 else f"+{text}"


def percent(share: float) -> str:
    return f"{share * 100:g}%"


def share_cell(share: float | None) -> Cell:
    return Cell(None, "none") if share is None else Cell(share, percent(share))


def runs_table(
    known: Known,
    rows: Sequence[tuple[str, str, float, Problem, BySeed]],
    *,
    share: str = "sparsity",
    when: str = "development set, last step",
) -> Table:
    """Every run: task, row, sparsity (or another ``share``) and seed; the scores; the identity in the store."""
    lines = []
    for task, name, sparsity, problem, row in rows:
        for seed, step in row.items():
            metrics = known.metrics(step)
            found = (
                [f"{metric} {metrics['dev'][metric]:.2f}" for metric in problem.task.metrics]
                if metrics
                else ["–"]
            )
            lines.append(
                (
                    Cell(task, task),
                    Cell(name, name),
                    Cell(sparsity, percent(sparsity)),
                    Cell(seed, str(seed)),
                    Cell(", ".join(found), ", ".join(found)),
                    Cell(known.run(step), known.run(step)[:12], (known.run(step),)),
                )
            )
    columns = ("task", "row", share, "seed", when, "run")
    return Table("runs", "Every run", columns, tuple(lines))
