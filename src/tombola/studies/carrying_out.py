"""Carrying studies out: plan, run what is missing, plan again with what is known now, until nothing new is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tombola.engine.pending import substituted
from tombola.engine.protocol import Executor, Failed, Reporter
from tombola.engine.scheduling import Policy, bring_about
from tombola.engine.store import Store
from tombola.plan.graph import Graph
from tombola.plan.step import Ref, Step
from tombola.studies.study import Plan, Study


class StoreKnows:
    """What a store knows of planned steps. Each is read once: what is done stays as it is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[tuple[str, str], Any] = {}

    def metrics(self, step: Step) -> Mapping[str, Any] | None:
        return self.json(step.out("metrics.json"))

    def json(self, output: Ref) -> Any | None:
        place = output.step.identity, output.output
        found = self._read.get(place)
        if found is None:
            actual = self._actual(output.step)
            if not self._store.is_there(actual.identity):
                return None
            found = self._read[place] = self._store.read_json(actual.out(output.output))
        return found

    def run(self, step: Step) -> str:
        return self._actual(step).identity

    def _actual(self, step: Step) -> Step:
        """The step itself, or what was run instead when it had run out of memory."""
        return substituted(Graph((step,)), self._store)[0].wanted[0]


@dataclass(frozen=True)
class Outcome:
    """How it came out: steps that were run, and what could not be done and why."""

    ran: int
    failed: tuple[Failed, ...]
    blocked: tuple[Step, ...]

    @property
    def complete(self) -> bool:
        return not self.failed and not self.blocked


def planned(studies: Sequence[Study], known: StoreKnows) -> Plan:
    """What all these studies want now, what they share once."""
    plans = [study.plan(known) for study in studies]
    graph = Graph((), ())
    for plan in plans:
        graph = graph + plan.graph
    return Plan(graph, sum(plan.later for plan in plans))


def carry_out(
    studies: Sequence[Study],
    store: Store,
    executor: Callable[[Graph], Executor],
    reporter: Reporter | None = None,
    policy: Policy | None = None,
) -> Outcome:
    """Bring everything these studies want into the store; ``executor`` is made anew for every stage that has work."""
    policy = policy or Policy(keep_going=True)
    ran, failed, blocked = 0, dict[str, Failed](), dict[str, Step]()
    tried: set[str] = set()
    while True:
        # Read anew: a damaged run may have been set aside since.
        plan = planned(studies, StoreKnows(store))
        wanted = {step.identity for step in plan.graph.steps}
        if wanted <= tried:
            return Outcome(ran, tuple(failed.values()), tuple(blocked.values()))
        tried |= wanted
        summary = bring_about(plan.graph, store, executor(plan.graph), reporter, policy)
        ran += summary.ran
        failed.update({entry.step.identity: entry for entry in summary.failed})
        blocked.update({step.identity: step for step in summary.blocked})
