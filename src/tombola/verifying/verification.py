"""Verifying a ticket: plan its trainings beside the full model's and the controls', then judge what they scored.

A stranger's ticket is one *fixed* mask retrained over seeds; a ticket of one's own search has a mask a seed. The two
standard deviations are different things (SPEC 1) and the verdict says which one it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tombola.plan.graph import Graph
from tombola.plan.problem import Problem
from tombola.plan.step import Step
from tombola.plan.trainings import Candidate, dense_training, retraining
from tombola.verifying.claim import Claim, Metrics
from tombola.verifying.controls import CONTROLS, check_controls
from tombola.verifying.criteria import CRITERIA, Criterion, Decision, degenerate, within_one_std
from tombola.verifying.significance import Comparison, compare
from tombola.verifying.summary import Summary, summarize


@dataclass(frozen=True)
class VerificationPlan:
    """``rows[name][seed]``: the trainings of ``full``, ``ticket`` and every control of the size that is claimed."""

    problem: Problem
    claim: Claim
    rows: Mapping[str, Mapping[int, Step]]

    @property
    def graph(self) -> Graph:
        return Graph(tuple(step for by_seed in self.rows.values() for step in by_seed.values()))


@dataclass(frozen=True)
class Row:
    """One line of the table: its scores per seed and metric, and how it stands against the ticket."""

    name: str
    scores: Mapping[str, tuple[float, ...]]
    summaries: Mapping[str, Summary]
    #: counted in its trained weights, in the claim's measure, the mean of its runs
    measured: float
    #: ticket − this row, paired by seed, on the primary metric; None for the ticket itself
    against_ticket: Comparison | None
    runs: tuple[str, ...]
    #: the primary metric without the share of dev that early stopping looked at; None where nothing was stopped
    rest: Summary | None = None


@dataclass(frozen=True)
class Verification:
    """What was found: the rows, every criterion's decision, and the one answer."""

    metric: str
    seeds: tuple[int, ...]
    fixed_mask: bool
    #: what the next two are: a sparsity, or a remaining weight
    measure: str
    claimed: float
    measured: float
    #: how the two are to be compared; empty where they are plainly equal
    note: str
    rows: tuple[Row, ...]
    criterion: str
    decisions: Mapping[str, Decision | str]
    degenerate: bool
    majority: float
    winning: bool
    said: str

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)


def plan_verification(
    problem: Problem,
    tickets: Mapping[int, Candidate],
    claim: Claim,
    against: tuple[str, ...] = ("full", "random"),
) -> VerificationPlan:
    """Trainings of the full model, the ticket of each seed, and the controls, for the seeds of ``tickets``."""
    check_controls(against, claim)
    rows: dict[str, dict[int, Step]] = {
        "full": {seed: dense_training(problem, seed) for seed in tickets},
        "ticket": {
            seed: retraining(problem, ticket, seed, f"ticket, seed {seed}")
            for seed, ticket in tickets.items()
        },
    }
    for name in against:
        if name != "full":
            rows[name] = {
                seed: retraining(
                    problem, CONTROLS[name](problem, ticket, claim, seed), seed, f"{name}, seed {seed}"
                )
                for seed, ticket in tickets.items()
            }
    return VerificationPlan(problem, claim, rows)


def judge(
    plan: VerificationPlan,
    metrics_of: Callable[[Step], Metrics],
    *,
    fixed_mask: bool,
    criterion: Criterion | None = None,
) -> Verification:
    """Read the trainings' metrics and answer: is this a winning ticket?"""
    criterion = criterion or within_one_std()
    problem, claim = plan.problem, plan.claim
    metric = problem.task.metrics[0]
    seeds = tuple(plan.rows["ticket"])
    found = {name: [metrics_of(step) for step in by_seed.values()] for name, by_seed in plan.rows.items()}
    ticket = [float(metrics["dev"][metric]) for metrics in found["ticket"]]
    full = [float(metrics["dev"][metric]) for metrics in found["full"]]
    rows = tuple(_row(name, found[name], plan, ticket) for name in plan.rows)
    measured = [claim.measured(metrics) for metrics in found["ticket"]]
    claim_holds = all(claim.holds(metrics) for metrics in found["ticket"])
    decisions = _decisions(full, ticket, criterion)
    decision = decisions[str(criterion)]
    holds = isinstance(decision, Decision) and decision.holds
    lost = degenerate(full, problem.task.majority)
    return Verification(
        metric=metric,
        seeds=seeds,
        fixed_mask=fixed_mask,
        measure=claim.measure,
        claimed=claim.claimed,
        measured=max(measured, key=lambda share: abs(share - claim.claimed)),
        note=claim.note,
        rows=rows,
        criterion=str(criterion),
        decisions=decisions,
        degenerate=lost,
        majority=problem.task.majority,
        winning=holds and claim_holds,
        said=_verdict(holds, None if claim_holds else claim.broken, lost, decision, metric),
    )


def _row(name: str, found: list[Metrics], plan: VerificationPlan, ticket: list[float]) -> Row:
    names = plan.problem.task.metrics
    scores = {metric: tuple(float(metrics["dev"][metric]) for metrics in found) for metric in names}
    primary = scores[names[0]]
    rest = [float(metrics["dev_rest"][names[0]]) for metrics in found if "dev_rest" in metrics]
    return Row(
        name=name,
        scores=scores,
        summaries={metric: summarize(values) for metric, values in scores.items()},
        measured=statistics.mean(plan.claim.measured(metrics) for metrics in found),
        against_ticket=None if name == "ticket" else compare(ticket, primary),
        runs=tuple(step.identity for step in plan.rows[name].values()),
        rest=summarize(rest) if rest else None,
    )


def _decisions(full: list[float], ticket: list[float], chosen: Criterion) -> dict[str, Decision | str]:
    """All four criteria, the chosen one first; a text says why one cannot be judged."""
    criteria = {str(criterion): criterion for criterion in (chosen, *(make() for make in CRITERIA.values()))}
    return {
        name: criterion.undecidable(full, ticket) or criterion.holds(full, ticket)
        for name, criterion in criteria.items()
    }


def _verdict(holds: bool, broken: str | None, lost: bool, decision: Decision | str, metric: str) -> str:
    reason = decision if isinstance(decision, str) else decision.said
    if broken is not None:
        return f"NO: {broken}"
    if lost:
        prefix = "YES by the letter" if holds else "NO"
        return (
            f"{prefix}, but degenerate: the full model's {metric} is no better than the majority class alone"
        )
    return f"{'YES, a winning ticket' if holds else 'NO, not a winning ticket'} ({reason})"
