"""The phases of one search of super tickets as a figure: score against remaining weight (Super tickets, Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.studies.artefact import Curve, Curves, Panel

if TYPE_CHECKING:
    from tombola.finding.super_outcome import SuperOutcome


def phases_figure(outcome: SuperOutcome) -> Curves:
    """The winning tickets of every level, from the full model to the smallest, and the full model as a line."""
    rows = outcome.curve()
    problem = outcome.search.problem
    runs = [
        tuple(step.identity for step in row.values())
        for row in (outcome.search.dense, *outcome.search.retrained.values())
    ]
    winning = Curve(
        label="winning tickets",
        x=tuple(row["remaining"] for row in rows),
        mean=tuple(row["mean"] for row in rows),
        std=tuple(row["std"] for row in rows),
        runs=tuple(runs),
    )
    score = " and ".join(problem.task.metrics)
    return Curves(
        name="phases",
        title=f"{problem.model.name} on {problem.task.name}: score of super tickets by their size",
        x_label="remaining weight, of all parameters",
        panels=(
            Panel(
                problem.task.name,
                f"mean of {score}" if len(problem.task.metrics) > 1 else score,
                (winning,),
                (rows[0]["mean"], "full model"),
            ),
        ),
        notes=(f"{rows[0]['n']} seeds, each a whole search; development set",),
    )
