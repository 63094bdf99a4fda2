"""The tables of the phases study: the curves in numbers, the borders of the phases, the paired comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from tombola.studies.artefact import Cell, Table
from tombola.studies.evidence import MISSING, Scores, difference_cells, percent
from tombola.studies.phases_evidence import FULL, NAMES, Phased
from tombola.verifying.summary import fixed


def curve_table(every: Sequence[Phased]) -> Table:
    """A row a level and metric: what is gone, what remains, and every kind's scores."""
    kinds = every[0].found.kinds if every else ()
    lines = []
    for one in every:
        for measure in one.measures:
            for level in (0.0, *one.found.levels):
                rows = [one.at(kind, level, measure) for kind in kinds]
                if level == 0:
                    # The full model is what every curve begins with: said once.
                    rows = [rows[0], *(None for _ in rows[1:])]
                first = next((row for row in rows if row is not None), None)
                phase = one.borders.phase(level) if one.borders else None
                lines.append(
                    (
                        *_place(one),
                        Cell(measure.name, measure.name),
                        *_level_cells(one, level),
                        *(row.cell() if row else MISSING for row in rows),
                        Cell(first.summary.n, str(first.summary.n)) if first else MISSING,
                        Cell(phase, phase) if phase else MISSING,
                    )
                )
    columns = (
        *("task", "train", "metric", "level", "heads gone", "FFNs gone", "remaining", "of the encoder"),
        *(NAMES[kind] for kind in kinds),
        *("n", "phase"),
    )
    notes = (
        "Level 0% is the full model. remaining: of all parameters of the pre-trained model, embeddings included; of "
        "the encoder: of the weights of its layers. Mean ± std (ddof 1) over seeds, each a whole search; the whole "
        "development set.",
    )
    return Table("curves", "Score at every level", columns, tuple(lines), notes)


def phase_table(every: Sequence[Phased]) -> Table:
    """Where each task's phases begin and end."""
    lines = []
    for one in every:
        full = one.full(one.score)
        found = one.borders
        best = one.at("winning", found.best, one.score) if found else None
        best_cells = _border_cells(one, found.best if found and found.best else None)
        lost_cells = _border_cells(one, found.lost if found else None)
        gain = difference_cells(best, full) if found and found.best else (MISSING,) * 3
        lines.append(
            (
                *_place(one),
                full.cell() if full else MISSING,
                *best_cells,
                best.cell() if best else MISSING,
                *gain,
                *lost_cells,
            )
        )
    columns = (
        *("task", "train", FULL, "I ends at", "remaining there", "best", "best − full", "95 % interval", "p"),
        *("III begins at", "remaining at III"),
    )
    notes = (
        "Phase I ends at the level whose winning tickets have the best mean score; no level: no ticket beats the full "
        "model on average. Phase III begins at the first level from there on whose winning tickets are no better than "
        "random ones; no level: none is.",
        "The best level is chosen by the very scores that it is compared with: its gain flatters it. Super tickets "
        "chosen on a share of their own are in the study super_tables.",
    )
    return Table("phases", "The phases of every task", columns, tuple(lines), notes)


def comparisons(every: Sequence[Phased]) -> Table:
    """Winning tickets against the full model, random and losing tickets at every level, paired by seed."""
    lines = []
    for one in every:
        for level in one.found.levels:
            winning = one.at("winning", level, one.score)
            others: list[tuple[str, Scores | None]] = [(FULL, one.full(one.score))]
            others += [
                (NAMES[kind], one.at(kind, level, one.score)) for kind in one.found.kinds if kind != "winning"
            ]
            for name, other in others:
                lines.append(
                    (
                        *_place(one),
                        Cell(level, percent(level)),
                        Cell(name, name),
                        winning.cell() if winning else MISSING,
                        other.cell() if other else MISSING,
                        *difference_cells(winning, other),
                    )
                )
    columns = (
        *("task", "train", "level", "against", "winning", "other", "winning − other", "95 % interval", "p"),
    )
    notes = (
        "By the task's score (the mean of its metrics), paired by seed: paired t-test, bootstrap interval. No "
        "correction for the number of comparisons is made.",
    )
    return Table(
        "comparisons",
        "Winning tickets against the full model and the other tickets",
        columns,
        tuple(lines),
        notes,
    )


def remaining_cell(share: float) -> Cell:
    return Cell(share, f"{fixed(100 * share, 1)}%")


def _place(one: Phased) -> tuple[Cell, Cell]:
    return Cell(one.task, one.task), Cell(one.share, percent(one.share))


def _level_cells(one: Phased, level: float) -> tuple[Cell, ...]:
    heads, ffns = one.found.removed(level)
    return (
        Cell(level, percent(level)),
        Cell(heads, str(heads)),
        Cell(ffns, str(ffns)),
        remaining_cell(one.found.remaining(level)),
        remaining_cell(one.found.remaining_of_encoder(level)),
    )


def _border_cells(one: Phased, level: float | None) -> tuple[Cell, Cell]:
    if level is None:
        return MISSING, MISSING
    return Cell(level, percent(level)), remaining_cell(one.found.remaining(level))
