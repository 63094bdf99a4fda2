"""The tables and figures of the phases study, in the paper's layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tombola.finding.super_ticket import Kind
from tombola.studies.artefact import Artefact, Curve, Curves, Panel
from tombola.studies.evidence import BySeed, Measure, percent, runs_table
from tombola.studies.phases_evidence import FULL, NAMES, REMAINING, Phased
from tombola.studies.phases_tables import comparisons, curve_table, phase_table

if TYPE_CHECKING:
    from tombola.studies.phases import Phases
    from tombola.studies.study import Known


def artefacts(study: Phases, known: Known) -> tuple[Artefact, ...]:
    """Everything the study gives, in the order of the paper."""
    every = study.phased(known)
    whole = [one for one in every if one.share == max(study.recipe.shares)]
    found: list[Artefact] = [phases_figure(study, whole)]
    several = [one for one in whole if len(one.measures) > 1]
    if several:
        found.append(metrics_figure(study, several))
    if study.recipe.bias_and_variance and len(study.recipe.seeds) > 1:
        found += [spread_figure(study, whole, known, what) for what in SPREAD]
    if len(study.recipe.shares) > 1:
        smaller = study.recipe.subset_tasks or tuple(study.recipe.tasks)
        found += [subsets_figure(study, every, task) for task in smaller]
    rows = [
        (one.title, name, level, one.found.problem, row)
        for one in every
        for name, level, row in _every_row(one)
    ]
    every_run = runs_table(known, rows, share="level", when="development set")
    tables = (phase_table(every), curve_table(every), comparisons(every), every_run)
    return (*found, *tables)


def phases_figure(study: Phases, shown: Sequence[Phased]) -> Curves:
    """Figures 1 (left), 4 and 7: the task's score of every kind of ticket against remaining weight."""
    return Curves(
        "figure-4",
        "Phases of super tickets: score against remaining weight (Figures 1, 4, 7)",
        REMAINING,
        tuple(panel(one, one.score, one.title) for one in shown),
        (_over(study), *_legend(study)),
        x_falls=True,
    )


def metrics_figure(study: Phases, shown: Sequence[Phased]) -> Curves:
    """The same for each metric of the tasks that have several; the phases are those of the score."""
    return Curves(
        "figure-4-metrics",
        "Phases of super tickets: every metric of the tasks that have several",
        REMAINING,
        tuple(
            panel(one, measure, f"{one.title}: {measure.name}")
            for one in shown
            for measure in one.measures[1:]
        ),
        (_over(study), *_legend(study)),
        x_falls=True,
    )


def subsets_figure(study: Phases, every: Sequence[Phased], task: str) -> Curves:
    """Figure 5: the same task with less training data."""
    shown = [one for one in every if one.task == task]
    return Curves(
        f"figure-5-{task}",
        f"{task} with less training data (Figure 5)",
        REMAINING,
        tuple(
            panel(one, one.score, f"{percent(one.share)}: {one.found.problem.task.train_examples:,} examples")
            for one in shown
        ),
        (_over(study), "Each share is a seeded random subset and lies in the larger ones.", *_legend(study)),
        x_falls=True,
    )


#: What is drawn of a decomposition: its name in the file, and the words of the figure.
SPREAD = {"bias_squared": ("bias", "bias²"), "variance": ("variance", "variance")}


def spread_figure(study: Phases, shown: Sequence[Phased], known: Known, what: str) -> Curves:
    """Figure 1 (middle, right): bias² or variance over the seeds at every level."""
    name, words = SPREAD[what]
    panels = []
    for one in shown:
        curves = [_spread_curve(one, known, kind, what) for kind in one.found.kinds]
        regression = one.found.problem.task.kind == "regression"
        unit = "predicted score" if regression else "probabilities"
        panels.append(Panel(one.title, f"{words} of the {unit}", tuple(curves), None, one.regions))
    return Curves(
        f"figure-1-{name}",
        f"{words[0].upper()}{words[1:]} over seeds against remaining weight (Figure 1)",
        REMAINING,
        tuple(panels),
        (
            f"Estimated over {len(study.recipe.seeds)} seeds, each a whole search, on the development set: of the "
            "squared error of the predicted class probabilities, summed over classes, or of the predicted score.",
            "variance: ddof 1; bias² is the mean squared error minus the variance, so that it holds none of it; with "
            "few seeds it may fall below 0.",
            *_legend(study),
        ),
        x_falls=True,
    )


def panel(one: Phased, measure: Measure, title: str) -> Panel:
    """Every kind's curve, the full model as a line, the phases as shades."""
    full = one.full(measure)
    curves = tuple(one.curve(kind, measure) for kind in one.found.kinds)
    level = None if full is None else (full.summary.mean, FULL)
    return Panel(title, one.y_label(measure), tuple(curve for curve in curves if curve.x), level, one.regions)


def _spread_curve(one: Phased, known: Known, kind: Kind, what: str) -> Curve:
    points = []
    for level in (0.0, *one.found.levels):
        step = one.decomposition(kind, level)
        found = None if step is None else known.json(step.out("decomposition.json"))
        if step is not None and found is not None:
            points.append((one.found.remaining(level), float(found[what]), (known.run(step),)))
    return Curve(
        NAMES[kind],
        tuple(x for x, _, _ in points),
        tuple(value for _, value, _ in points),
        tuple(None for _ in points),
        tuple(runs for _, _, runs in points),
    )


def _every_row(one: Phased) -> Iterator[tuple[str, float, BySeed]]:
    yield "full", 0.0, one.found.search.dense
    for level in one.found.levels:
        for kind in one.found.kinds:
            yield kind, level, one.found.rows[kind][level]


def _over(study: Phases) -> str:
    seeds = study.recipe.seeds
    return (
        f"Mean and ± std over {len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))}), each a "
        "whole search: its own full model, importance, tickets; the whole development set."
    )


def _legend(study: Phases) -> tuple[str, ...]:
    if "random" not in study.recipe.kinds:
        return ()
    return (
        "Shades: phase I up to the best level, II until winning tickets are no better than random ones, III after it. "
        "Without I no ticket beats the full model.",
    )
