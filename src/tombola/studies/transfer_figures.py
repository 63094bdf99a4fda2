"""The heatmaps and the table of the transfer study, in the papers' layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tombola.plan.problem import Problem
from tombola.studies.artefact import Artefact, Cell, Heatmap, Table
from tombola.studies.evidence import MISSING, BySeed, Scores, percent, primary, runs_table, share_cell, signed
from tombola.studies.transfer import MAGNITUDE
from tombola.verifying.criteria import ROUND_OFF

if TYPE_CHECKING:
    from tombola.studies.study import Known
    from tombola.studies.transfer import Transfer


def artefacts(study: Transfer, known: Known) -> tuple[Artefact, ...]:
    """Everything the study gives, in the order of the paper."""
    recipe = study.recipe
    found: list[Artefact] = []
    if recipe.figure_2 is not None:
        found += [figure_2a(study, known, recipe.figure_2), figure_2b(study, known, recipe.figure_2)]
    if recipe.figure_5 is not None:
        found.append(figure_5(study, known, recipe.figure_5))
    if recipe.figure_6:
        found.append(figure_6(study, known))
    if recipe.table_7:
        found.append(table_7(study, known))
    return (*found, scores_table(study, known), runs_table(known, _every_row(study, known)))


def figure_2a(study: Transfer, known: Known, sparsity: float) -> Heatmap:
    """Figure 2a: TRANSFER(S, T) − full(T), dark where the ticket wins on T."""
    grid = _Grid(study, known, dict.fromkeys(_sources(study), sparsity))
    return grid.heatmap(
        "figure-2a",
        f"Transfer of {percent(sparsity)} tickets: difference from the full model (Figure 2a)",
        lambda target, found: _difference(found, study.full(known, target)),
        lambda target, found: study.wins(study.full(known, target), found),
        f"wins on the target by {study.criterion}",
        counted=False,
    )


def figure_2b(study: Transfer, known: Known, sparsity: float) -> Heatmap:
    """Figure 2b: the same runs, dark where TRANSFER(S, T) ≥ TRANSFER(T, T); how many targets at the right."""
    grid = _Grid(study, known, dict.fromkeys(_sources(study), sparsity))
    return grid.heatmap(
        "figure-2b",
        f"Transfer of {percent(sparsity)} tickets: difference from the target's own ticket (Figure 2b)",
        lambda target, found: _difference(found, study.scores(known, target, target, sparsity)),
        lambda target, found: _not_below(found, study.scores(known, target, target, sparsity)),
        "TRANSFER(S, T) ≥ TRANSFER(T, T)",
        counted=True,
    )


def figure_5(study: Transfer, known: Known, sparsity: float) -> Heatmap:
    """Figure 5: values of 2a, shading and count of 2b."""
    grid = _Grid(study, known, dict.fromkeys(_sources(study), sparsity))
    return grid.heatmap(
        "figure-5",
        f"Transfer of {percent(sparsity)} tickets: difference from the full model (Figure 5)",
        lambda target, found: _difference(found, study.full(known, target)),
        lambda target, found: _not_below(found, study.scores(known, target, target, sparsity)),
        "TRANSFER(S, T) ≥ TRANSFER(T, T)",
        counted=True,
    )


def figure_6(study: Transfer, known: Known) -> Heatmap:
    """Figure 6: each source at its own winning sparsity; TRANSFER(S, T), dark where it wins on T."""
    at = {source: study.own_sparsity(known, source) for source in study.recipe.all_sources}
    grid = _Grid(study, known, at)
    none = [source for source, share in at.items() if share is None]
    notes = [f"No ticket of {', '.join(none)} wins on its own task: its row is empty."] if none else []
    return grid.heatmap(
        "figure-6",
        "Transfer of tickets at their source's own winning sparsity: mean score (Figure 6)",
        lambda _target, found: found.summary.mean if found else None,
        lambda target, found: study.wins(study.full(known, target), found),
        f"wins on the target by {study.criterion}",
        counted=True,
        notes=tuple(notes),
        labels=tuple(f"{source} ({share_cell(share).text})" for source, share in at.items()),
    )


def table_7(study: Transfer, known: Known) -> Table:
    """Table 7: a source's ticket at the target's own winning sparsity, trained on each target."""
    lines = []
    for source in study.recipe.table_7:
        for target in study.recipe.all_targets:
            at = study.own_sparsity(known, target)
            full = study.full(known, target)
            own = study.scores(known, target, target, at)
            found = study.scores(known, source, target, at)
            cells = [Cell(source, source), Cell(target, target), share_cell(at)]
            cells += [entry.cell() if entry else MISSING for entry in (full, own)]
            cells.append(found.cell(strong=study.wins(full, found)) if found else MISSING)
            lines.append((*cells, _gap(full, found)))
    columns = (
        "source",
        "target",
        "sparsity",
        "full model",
        "own ticket",
        "source's ticket",
        "gap F − (P + σ)",
    )
    notes = (f"Strong: wins on the target by {study.criterion}. {_over(study)}",)
    title = "A source's ticket at the target's winning sparsity (Table 7)"
    return Table("table-7", title, columns, tuple(lines), notes)


def scores_table(study: Transfer, known: Known) -> Table:
    """Every TRANSFER(S, T) with its spread, which the heatmaps leave out."""
    lines = []
    for source, target, sparsity in _cells(study, known):
        full, found = study.full(known, target), study.scores(known, source, target, sparsity)
        own = study.scores(known, target, target, sparsity)
        lines.append(
            (
                Cell(sparsity, percent(sparsity)),
                Cell(source, source),
                Cell(target, target),
                found.cell(strong=study.wins(full, found)) if found else MISSING,
                full.cell() if full else MISSING,
                own.cell() if own else MISSING,
            )
        )
    columns = ("sparsity", "source", "target", "TRANSFER(S, T)", "full(T)", "TRANSFER(T, T)")
    notes = (f"Strong: wins on the target by {study.criterion}. {_over(study)}",)
    return Table("transfer-scores", "Every transfer", columns, tuple(lines), notes)


class _Grid:
    """The cells of one heatmap: a source a row, each at its sparsity, a target a column."""

    def __init__(self, study: Transfer, known: Known, at: dict[str, float | None]) -> None:
        self.study, self.known, self.at = study, known, at

    def heatmap(
        self,
        name: str,
        title: str,
        value: Callable[[str, Scores | None], float | None],
        dark: Callable[[str, Scores | None], bool],
        rule: str,
        *,
        counted: bool,
        notes: tuple[str, ...] = (),
        labels: tuple[str, ...] | None = None,
    ) -> Heatmap:
        """``value`` and ``dark`` are functions of the target and of the scores in the cell."""
        targets = self.study.recipe.all_targets
        values, shades, runs = [], [], []
        for source, sparsity in self.at.items():
            found = [self.study.scores(self.known, source, target, sparsity) for target in targets]
            values.append(tuple(value(target, cell) for target, cell in zip(targets, found, strict=True)))
            shades.append(tuple(dark(target, cell) for target, cell in zip(targets, found, strict=True)))
            runs.append(tuple(cell.runs if cell else () for cell in found))
        universal = [source for source, row in zip(self.at, shades, strict=True) if all(row)]
        said = (
            f"Dark for every target: {', '.join(universal)}."
            if universal
            else "No row is dark for every target."
        )
        return Heatmap(
            name,
            title,
            labels or tuple(self.at),
            tuple(targets),
            tuple(values),
            tuple(shades),
            rule,
            counts=tuple(sum(row) for row in shades) if counted else tuple(None for _ in shades),
            runs=tuple(runs),
            notes=(*notes, said, _over(self.study)),
        )


def _sources(study: Transfer) -> tuple[str, ...]:
    return (*study.recipe.all_sources, *((MAGNITUDE,) if study.recipe.magnitude_row else ()))


def _cells(study: Transfer, known: Known) -> list[tuple[str, str, float]]:
    """(source, target, sparsity) of every cell of every figure, each once."""
    fixed = [(source, target, share) for share in study.recipe.fixed for source, target in study.pairs()]
    own = [(target, target, share) for share in study.recipe.fixed for target in study.recipe.all_targets]
    return list(dict.fromkeys((*fixed, *own, *study.at_winning(known))))


def _every_row(study: Transfer, known: Known) -> list[tuple[str, str, float, Problem, BySeed]]:
    problems = {target: study.searches[target].problem for target in study.recipe.all_targets}
    rows: list[tuple[str, str, float, Problem, BySeed]] = [
        (target, "full", 0.0, problem, study.searches[target].dense) for target, problem in problems.items()
    ]
    for source, target, share in _cells(study, known):
        row = study.row(source, target, share)
        rows.append((target, f"from {source}", share, problems[target], row))
    return rows


def _difference(found: Scores | None, other: Scores | None) -> float | None:
    return None if found is None or other is None else found.summary.mean - other.summary.mean


def _not_below(found: Scores | None, own: Scores | None) -> bool:
    difference = _difference(found, own)
    return difference is not None and difference >= -ROUND_OFF


def _gap(full: Scores | None, found: Scores | None) -> Cell:
    """What is missing to win by one std of the ticket; negative where nothing is."""
    if full is None or found is None or found.summary.std is None:
        return MISSING
    gap = full.summary.mean - (found.summary.mean + found.summary.std)
    return Cell(gap, signed(gap))


def _over(study: Transfer) -> str:
    metrics = [f"{task} {primary(study.searches[task].problem).name}" for task in study.recipe.all_targets]
    seeds = ", ".join(map(str, study.recipe.seeds))
    return f"Means over seeds {seeds}: ticket k trained with seed k. {', '.join(metrics)}; development set, last step."
