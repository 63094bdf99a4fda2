"""A study: from a recipe and what is known so far, the steps it needs; from their results, tables and figures.

Some steps can only be planned when others are done: the controls of Table 4 stand at each task's winning sparsity,
which the tickets' scores decide. So a study is planned again and again, each time knowing more, until nothing new
is wanted. The plan is a pure function of the recipe and the store: where a study was killed makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tombola.plan.graph import Graph
from tombola.plan.step import Ref, Step
from tombola.studies.artefact import Artefact


class Known(Protocol):
    """What is known of planned steps."""

    def metrics(self, step: Step) -> Mapping[str, Any] | None:
        """``metrics.json`` of a finished training, None while it is not done."""
        ...

    def json(self, output: Ref) -> Any | None:
        """A JSON output of a step, None while it is not done."""
        ...

    def run(self, step: Step) -> str:
        """The identity of the run that was made for a planned step: its own, or that of what stands in for it."""
        ...


@dataclass(frozen=True)
class Plan:
    """``graph``: the steps known to be wanted. ``later``: how many trainings may follow at most once these are done."""

    graph: Graph
    later: int = 0


class Study(Protocol):
    """What ``studies/registry.py`` makes of a recipe."""

    def plan(self, known: Known) -> Plan: ...
    def artefacts(self, known: Known) -> tuple[Artefact, ...]: ...
