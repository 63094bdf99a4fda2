"""What a finished search of super tickets says: the level every seed chose, and its scores where they may be reported.

A level is chosen on a share of the development set; reported are the whole of it and, unbiased, the rest (trap 16).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tombola.finding.search import Search
from tombola.finding.super_ticket import parts_removed, remaining_weight
from tombola.plan.step import Ref
from tombola.verifying.summary import Summary, summarize

#: A metric's name, or the mean of the task's metrics, which is a task's score.
MEAN = "mean"
PARTS = ("dev", "rest", "share")


@dataclass(frozen=True)
class Choice:
    """``choice.json`` of one seed: scores by level (0: the full model), part of dev and metric."""

    chosen: float
    levels: Mapping[float, Mapping[str, Mapping[str, float]]]

    def score(self, level: float, part: str, metric: str = MEAN) -> float:
        scores = self.levels[level][part]
        return sum(scores.values()) / len(scores) if metric == MEAN else scores[metric]


@dataclass(frozen=True)
class SuperOutcome:
    """The choices of all seeds."""

    search: Search
    choices: Mapping[int, Choice]

    @cached_property
    def first(self) -> float:
        """The level of the first seed, whose ticket is the one that is saved."""
        return self.choices[self.search.settings.seeds[0]].chosen

    def full(self, part: str, metric: str = MEAN) -> list[float]:
        return [choice.score(0.0, part, metric) for choice in self.choices.values()]

    def ticket(self, part: str, metric: str = MEAN) -> list[float]:
        """Every seed at its own level: a run is a whole search (SPEC 1)."""
        return [choice.score(choice.chosen, part, metric) for choice in self.choices.values()]

    def at(self, level: float, part: str, metric: str = MEAN) -> list[float]:
        return [choice.score(level, part, metric) for choice in self.choices.values()]

    def remaining(self, level: float) -> float:
        return remaining_weight(self.search.problem, level, self.search.settings.ffn_rule)

    def curve(self, part: str = "dev") -> list[dict[str, Any]]:
        """Score against remaining weight, level by level: the phases of the paper's figures."""
        rows = []
        for level in (0.0, *self.search.settings.sparsities):
            heads, ffns = (
                parts_removed(self.search.problem, level, self.search.settings.ffn_rule) if level else (0, 0)
            )
            rows.append(
                {
                    "level": level,
                    "heads_removed": heads,
                    "ffns_removed": ffns,
                    "remaining": self.remaining(level),
                    **_short(summarize(self.at(level, part))),
                }
            )
        return rows

    def results(self) -> dict[str, Any]:
        """The ``results`` of the ticket."""
        metrics = self.search.problem.task.metrics
        rows: dict[str, Callable[[str, str], list[float]]] = {"full": self.full, "ticket": self.ticket}
        return {
            "metric": metrics[0],
            "seeds": list(self.search.settings.seeds),
            "own_search_per_seed": True,
            "levels": [choice.chosen for choice in self.choices.values()],
            "scores": {
                name: {metric: row("dev", metric) for metric in metrics} for name, row in rows.items()
            },
            "summary": {name: summarize(row("dev", metrics[0])).to_json() for name, row in rows.items()},
            # Without the examples that the level was chosen on.
            "rest": {name: {metric: row("rest", metric) for metric in metrics} for name, row in rows.items()},
            "rest_summary": {
                name: summarize(row("rest", metrics[0])).to_json() for name, row in rows.items()
            },
            "curve": self.curve(),
            "runs": {
                "full": [step.identity for step in self.search.dense.values()],
                "ticket": [
                    self.search.retrained[choice.chosen][seed].identity if choice.chosen else dense.identity
                    for (seed, choice), dense in zip(
                        self.choices.items(), self.search.dense.values(), strict=True
                    )
                ],
                "choice": [step.identity for step in self.search.choices.values()],
            },
        }


def outcome_of(search: Search, read_json: Callable[[Ref], Any]) -> SuperOutcome:
    """Read what every seed chose."""
    return SuperOutcome(
        search, {seed: _choice(read_json(step.out("choice.json"))) for seed, step in search.choices.items()}
    )


def _choice(found: Mapping[str, Any]) -> Choice:
    return Choice(found["chosen"], {float(level): parts for level, parts in found["levels"].items()})


def _short(summary: Summary) -> dict[str, Any]:
    return {"mean": summary.mean, "std": summary.std, "n": summary.n}
