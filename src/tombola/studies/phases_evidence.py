"""What the phases study knows of one search: curves of scores, borders of phases, steps for bias and variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tombola.finding.super_ticket import Kind
from tombola.plan.evaluations import decomposition
from tombola.plan.step import Step
from tombola.studies.artefact import Curve, Region
from tombola.studies.evidence import MEAN, BySeed, Measure, Scores, scores
from tombola.studies.phase_borders import Borders, borders
from tombola.studies.study import Known
from tombola.studies.super_searches import SuperSearch

NAMES = {"winning": "winning tickets", "random": "random tickets", "losing": "losing tickets"}
FULL = "full model"
REMAINING = "remaining weight, of all parameters"


@dataclass(frozen=True)
class Phased:
    """One search on (a share of) a task, and what is known of it."""

    task: str
    share: float
    found: SuperSearch
    known: Known

    @property
    def title(self) -> str:
        return self.task if self.share == 1 else f"{self.task}, {self.share * 100:g} % of the training data"

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The mean of the task's metrics, which decides, and each of them where there are several."""
        metrics = self.found.problem.task.metrics
        if len(metrics) == 1:
            return (Measure(metrics[0]),)
        return (Measure(MEAN), *(Measure(metric) for metric in metrics))

    @property
    def score(self) -> Measure:
        return self.measures[0]

    def y_label(self, measure: Measure) -> str:
        if measure.metric != MEAN:
            return measure.name
        return f"mean of {' and '.join(self.found.problem.task.metrics)}"

    def full(self, measure: Measure) -> Scores | None:
        return scores(self.known, self.found.search.dense, measure)

    def at(self, kind: Kind, level: float, measure: Measure) -> Scores | None:
        """The scores of a row; every kind begins at the full model."""
        row = self.found.search.dense if level == 0 else self.found.rows[kind][level]
        return scores(self.known, row, measure)

    def points(self, kind: Kind, measure: Measure) -> list[tuple[float, Scores]]:
        """(level, scores) of what is done, from the full model on."""
        found = [(level, self.at(kind, level, measure)) for level in (0.0, *self.found.levels)]
        return [(level, entry) for level, entry in found if entry is not None]

    def curve(self, kind: Kind, measure: Measure) -> Curve:
        """Score against remaining weight; for one kind of ticket."""
        points = self.points(kind, measure)
        return Curve(
            NAMES[kind],
            tuple(self.found.remaining(level) for level, _ in points),
            tuple(entry.summary.mean for _, entry in points),
            tuple(entry.summary.std for _, entry in points),
            tuple(entry.runs for _, entry in points),
        )

    # -- phases -------------------------------------------------------------------------------------------------

    @cached_property
    def borders(self) -> Borders | None:
        """By the task's score; None while a level of the winning or the random tickets is missing."""
        winning = self._means("winning")
        random = self._means("random") if "random" in self.found.kinds else {}
        if winning is None or random is None:
            return None
        return borders(winning, {level: mean for level, mean in random.items() if level > 0})

    @property
    def regions(self) -> tuple[Region, ...]:
        """The phases as stretches of remaining weight."""
        if self.borders is None or "random" not in self.found.kinds:
            return ()
        best = self.found.remaining(self.borders.best)
        lost = None if self.borders.lost is None else self.found.remaining(self.borders.lost)
        found = [Region("I", best, 1.0)] if self.borders.best else []
        if lost is None or lost < best:
            found.append(Region("II", lost, best))
        return (*found, Region("III", None, lost)) if lost is not None else tuple(found)

    def _means(self, kind: Kind) -> dict[float, float] | None:
        points = self.points(kind, self.score)
        if len(points) < len(self.found.levels) + 1:
            return None
        return {level: entry.summary.mean for level, entry in points}

    # -- bias and variance --------------------------------------------------------------------------------------

    def decomposition(self, kind: Kind, level: float) -> Step | None:
        """The step that estimates them for one row; one seed has no variance."""
        row: BySeed = self.found.search.dense if level == 0 else self.found.rows[kind][level]
        if len(row) < 2:
            return None
        name = FULL if level == 0 else f"{kind} tickets at {level:.0%}"
        return decomposition(self.found.problem, row, label=f"bias and variance of the {name}")

    @property
    def decompositions(self) -> list[Step]:
        levels = (0.0, *self.found.levels)
        found = [self.decomposition(kind, level) for kind in self.found.kinds for level in levels]
        return list(dict.fromkeys(step for step in found if step is not None))
