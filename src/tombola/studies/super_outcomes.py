"""What the super tickets of one task say: full model against ticket, every seed at the level that it chose itself.

Scores are told of the whole development set and of its rest, which the choice of the level did not see (SPEC 5,
trap 16).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tombola.finding.super_outcome import SuperOutcome, outcome_of
from tombola.plan.step import Ref, Step
from tombola.studies.evidence import MEAN, BySeed, Measure, Scores, measures, scores
from tombola.studies.study import Known
from tombola.studies.super_searches import SuperSearch

Row = Literal["full", "ticket"]
Part = Literal["dev", "rest"]
PARTS: dict[Part, str] = {
    "dev": "the whole development set",
    "rest": "the part of the development set that neither stopping nor the choice of a level saw",
}


@dataclass(frozen=True)
class TaskOutcome:
    """One task's search, and what is known of it."""

    task: str
    found: SuperSearch
    known: Known

    @cached_property
    def outcome(self) -> SuperOutcome | None:
        """Every seed's choice, None while one is missing."""
        choices = self.found.search.choices.values()
        if any(self.known.json(step.out("choice.json")) is None for step in choices):
            return None
        return outcome_of(self.found.search, lambda ref: self.known.json(ref))

    @property
    def levels(self) -> dict[int, float] | None:
        """The level that every seed chose; 0 is the full model."""
        if self.outcome is None:
            return None
        return {seed: choice.chosen for seed, choice in self.outcome.choices.items()}

    @property
    def remaining(self) -> list[float] | None:
        """The remaining weight of every seed's ticket."""
        return (
            None if self.levels is None else [self.found.remaining(level) for level in self.levels.values()]
        )

    @property
    def score(self) -> Measure:
        """The mean of the task's metrics."""
        return Measure(MEAN)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every metric, and the first one on further development sets."""
        return measures(self.found.problem, self.known, self.found.search.dense)

    def training(self, row: Row, seed: int) -> Step:
        """The training behind one score."""
        level = 0.0 if row == "full" or self.levels is None else self.levels[seed]
        search = self.found.search
        return search.retrained[level][seed] if level else search.dense[seed]

    def structure(self, seed: int) -> Ref | None:
        """What a seed's ticket keeps; None where it is the full model."""
        level = self.levels[seed] if self.levels else 0.0
        return self.found.search.candidates[level][seed].mask if level else None

    def trainings(self, row: Row) -> BySeed:
        return {seed: self.training(row, seed) for seed in self.found.search.settings.seeds}

    def scores(self, row: Row, part: Part, measure: Measure) -> Scores | None:
        """One measure over the seeds, each at its own level."""
        if self.outcome is None:
            return None
        whole = scores(self.known, self.trainings(row), measure)
        # Further development sets took no part in the choice: all of them is their rest.
        if whole is None or part == "dev" or measure.split != "dev":
            return whole
        read = self.outcome.full if row == "full" else self.outcome.ticket
        return Scores(tuple(read(part, measure.metric)), whole.runs)

    def mean_scores(self, row: Row, part: Part) -> Scores | None:
        """The mean of all its measures, seed by seed: what an average over tasks counts a task as (SPEC 3.4)."""
        found = [self.scores(row, part, measure) for measure in self.measures]
        return mean_of(found)


def mean_of(found: list[Scores | None]) -> Scores | None:
    """The mean of several rows of scores, seed by seed; None where one is missing."""
    there = [entry for entry in found if entry is not None]
    if not there or len(there) < len(found):
        return None
    values = [sum(of_seed) / len(there) for of_seed in zip(*(entry.values for entry in there), strict=True)]
    return Scores(tuple(values), tuple(dict.fromkeys(run for entry in there for run in entry.runs)))


def average(tasks: list[TaskOutcome], row: Row, part: Part) -> Scores | None:
    """The mean over tasks of the mean of the task's metrics, seed by seed."""
    return mean_of([task.mean_scores(row, part) for task in tasks])
