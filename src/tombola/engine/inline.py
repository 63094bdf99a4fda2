"""The inline engine: every step in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from tombola.engine.performing import failure_of, perform
from tombola.engine.protocol import Event, Reporter, Silent, Summary
from tombola.engine.scheduling import Policy, bring_about
from tombola.engine.store import Store
from tombola.engine.work import Work
from tombola.plan.graph import Graph

__all__ = ["Inline", "Reporter", "Silent", "run"]


class Inline:
    """An executor of one slot that works while it is waited for."""

    slots = 1

    def __init__(self, store: Store) -> None:
        self._store = store
        self._work: Work | None = None

    def start(self, hear: Callable[[Event], None]) -> None:
        self._hear = hear

    def submit(self, work: Work) -> None:
        self._work = work

    def wait(self, timeout: float) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        try:
            seconds = perform(
                work,
                self._store,
                began=lambda: self._hear(Event(work.identity, "began")),
                moved=lambda done, total: self._hear(Event(work.identity, "moved", done, total)),
            )
        except Exception as error:
            self._hear(Event(work.identity, "failed", failure=failure_of(error), error=error))
        else:
            if seconds is None:
                self._hear(Event(work.identity, "busy"))
            else:
                self._hear(Event(work.identity, "done", seconds=seconds))

    def stop(self) -> None:
        """Nothing is under way between two steps."""


def run(
    graph: Graph, store: Store, *, reporter: Reporter | None = None, policy: Policy | None = None
) -> Summary:
    """Bring every wanted result of ``graph`` into ``store``, in this process."""
    return bring_about(graph, store, Inline(store), reporter, policy)
