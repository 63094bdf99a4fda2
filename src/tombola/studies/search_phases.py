"""The phases of one search of super tickets as a figure: score against remaining weight (Super tickets, Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.studies.artefact import Curve, Curves, Panel
from tombola.studies.phases_evidence import FULL, NAMES, REMAINING

if TYPE_CHECKING:
    from tombola.finding.super_outcome import SuperOutcome


def phases_figure(outcome: SuperOutcome) -> Curves:
    """The winning tickets of every level, from the full model to the smallest, and the full model as a line."""
    rows = outcome.curve()
    problem, search = outcome.search.problem, outcome.search
    trained = (search.dense, *search.retrained.values())
    winning = Curve(
        NAMES["winning"],
        tuple(row["remaining"] for row in rows),
        tuple(row["mean"] for row in rows),
        tuple(row["std"] for row in rows),
        tuple(tuple(step.identity for step in row.values()) for row in trained),
    )
    metrics = " and ".join(problem.task.metrics)
    score = f"mean of {metrics}" if len(problem.task.metrics) > 1 else metrics
    seeds = rows[0]["n"]
    return Curves(
        "phases",
        f"{problem.model.name} on {problem.task.name}: score of super tickets by their size",
        REMAINING,
        (Panel(problem.task.name, score, (winning,), (rows[0]["mean"], FULL)),),
        (
            f"{seeds} seed{'s' if seeds > 1 else ''}, each a whole search; the whole development set, mean and ± std",
        ),
        x_falls=True,
    )
