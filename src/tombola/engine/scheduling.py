"""The scheduler: which step runs next. The store is the truth; executors only run what they are given.

Longest chain first. Two processes may schedule the same graph on one store: before a step is submitted it is asked
again whether somebody else has done it, or has done what it was needed for. A failing step fails only what reads it.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from tombola.engine.housekeeping import Room
from tombola.engine.pending import pending, substitute, substituted
from tombola.engine.performing import Failure
from tombola.engine.protocol import Event, Executor, Failed, Reporter, Silent, Summary
from tombola.engine.readers import drop, reading
from tombola.engine.store import Store
from tombola.engine.work import OutputOf, Work
from tombola.plan.graph import Graph
from tombola.plan.step import Ref, Step

#: Seconds until a step that another process is at is looked at again.
SECONDS_BUSY = 0.5
#: How often a plan is made again because something it reads was found damaged.
MOST_DAMAGED = 3


@dataclass(frozen=True)
class Policy:
    """``retries``: further attempts at a step whose process died or whose disk failed. ``keep_going``: a failing step
    fails only its descendants; otherwise the first failure ends everything. ``max_store_bytes``: dropped outputs and
    leftovers make room; if that is not enough, nothing more is begun."""

    keep_going: bool = False
    retries: int = 2
    max_store_bytes: int | None = None


def bring_about(
    graph: Graph,
    store: Store,
    executor: Executor,
    reporter: Reporter | None = None,
    policy: Policy | None = None,
) -> Summary:
    """Bring every wanted result of ``graph`` into ``store``."""
    reporter, policy = reporter or Silent(), policy or Policy()
    ran, damaged, given_up = 0, 0, dict[str, Failed]()
    try:
        while True:
            now, stands_in = substituted(graph, store)
            attempt = _Pass(now, stands_in, store, executor, reporter, policy, given_up)
            attempt.run()
            ran += attempt.ran
            damaged += attempt.input_gone > 0
            once_more = attempt.input_gone > 0 and damaged <= MOST_DAMAGED
            for identity, entry in attempt.failed.items():
                if _memory_helped(entry, store):
                    once_more = True
                elif not (entry.failure.input_gone and damaged <= MOST_DAMAGED):
                    given_up[identity] = entry
            if given_up and not policy.keep_going:
                raise next(iter(given_up.values())).failure.raised()
            if not once_more:
                return Summary(ran, tuple(given_up.values()), tuple(attempt.blocked.values()), stands_in)
    finally:
        executor.stop()


def _memory_helped(entry: Failed, store: Store) -> bool:
    return entry.failure.memory and substitute(entry.step, store) is not None


@dataclass
class _Pass:
    """One plan of what is pending, run to its end."""

    graph: Graph
    stands_in: Mapping[str, Step]
    store: Store
    executor: Executor
    reporter: Reporter
    policy: Policy
    #: failed for good in an earlier pass
    given_up: Mapping[str, Failed]
    ran: int = 0
    input_gone: int = 0
    failed: dict[str, Failed] = field(default_factory=dict)
    blocked: dict[str, Step] = field(default_factory=dict)

    def run(self) -> None:
        with ExitStack() as announced:
            known: set[OutputOf] = set()
            # Planned again once it is announced: between the two looks somebody may have dropped what is read.
            while (read := self._read(self._plan())) - known:
                announced.enter_context(reading(self.store, read - known))
                known |= read
            self.reporter.planned(tuple(self.steps.values()), len(self.graph.steps) - len(self.steps))
            if self.steps:
                self.room = Room(self.store, self.policy.max_store_bytes, self._still_read)
                self._loop()
        self._drop_leftovers()

    # -- planning -----------------------------------------------------------------------------------------------

    def _plan(self) -> dict[str, Step]:
        self.work = pending(self.graph, self.store)
        self.steps = {step.identity: step for step in self.graph.steps if step.identity in self.work}
        self.readers: dict[str, list[str]] = {identity: [] for identity in self.steps}
        self.waits_for = dict.fromkeys(self.steps, 0)
        self.unread: Counter[OutputOf] = Counter()
        for identity, step in self.steps.items():
            for before in {ref.step.identity for ref in step.inputs.values()}:
                if before in self.steps:
                    self.readers[before].append(identity)
                    self.waits_for[identity] += 1
            self.unread.update(_key(ref) for ref in step.inputs.values())
        self.kept = {_key(ref) for ref in self.graph.outputs}
        self.ends = {step.identity for step in self.graph.ends}
        self.chain: dict[str, int] = {}
        for identity in reversed(self.steps):
            after = max((self.chain[reader] for reader in self.readers[identity]), default=0)
            self.chain[identity] = self.steps[identity].cost + 1 + after
        self.for_whom = {step.identity: planned for planned, step in self.stands_in.items()}
        self.order = {identity: number for number, identity in enumerate(self.steps)}
        return self.steps

    def _read(self, steps: dict[str, Step]) -> set[OutputOf]:
        """What these steps read, and what was asked for: nobody else may drop it. Nothing, if all is there."""
        inputs = {_key(ref) for step in steps.values() for ref in step.inputs.values()}
        return inputs | self.kept if steps else inputs

    # -- running ------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        self.ready: list[tuple[tuple[bool, bool, int, int], str]] = []
        self.running: dict[str, Step] = {}
        self.later: list[tuple[float, str]] = []
        self.attempts: Counter[str] = Counter()
        self.finished: set[str] = set()
        for identity in self.given_up.keys() & self.steps.keys():
            self._give_up(self.given_up[identity])
        for identity, count in self.waits_for.items():
            if count == 0 and identity not in self.failed:
                self._make_ready(identity)
        self.executor.start(self._hear)
        while self.ready or self.running or self.later:
            self._wake_the_later()
            while self.ready and len(self.running) < self.executor.slots:
                self._dispatch(heapq.heappop(self.ready)[1])
            if self.running:
                self.executor.wait(SECONDS_BUSY if self.later else 5.0)
            elif self.later and not self.ready:
                time.sleep(max(0.0, min(self.later)[0] - time.monotonic()))

    def _make_ready(self, identity: str) -> None:
        # A mask costs nothing and lets go of the weights it reads: at once. Of trainings the longest chain first.
        step = self.steps[identity]
        free = step.cost == 0
        turn = (not free, free and not step.inputs, -self.chain[identity], self.order[identity])
        heapq.heappush(self.ready, (turn, identity))

    def _wake_the_later(self) -> None:
        now = time.monotonic()
        for due, identity in list(self.later):
            if due <= now:
                self.later.remove((due, identity))
                self._make_ready(identity)

    def _dispatch(self, identity: str) -> None:
        step = self.steps[identity]
        if self.store.is_there(identity, self.work[identity]) or not self._needed(identity):
            self._finish(identity)
            return
        self.room.make(step)
        self.running[identity] = step
        self.attempts[identity] += 1
        self.executor.submit(Work.of(step, self.work[identity], self.for_whom.get(identity)))

    def _needed(self, identity: str) -> bool:
        """Whether an end, or a step that is needed and not done, waits for this one."""
        waiting, seen = [identity], {identity}
        while waiting:
            looked_at = waiting.pop()
            if looked_at in self.ends:
                return True
            for reader in self.readers[looked_at]:
                if reader not in seen and reader not in self.finished:
                    seen.add(reader)
                    if not self.store.is_there(reader, self.work[reader]):
                        waiting.append(reader)
        return False

    def _hear(self, event: Event) -> None:
        step = self.running.get(event.identity)
        if step is None:
            return
        if event.what == "began":
            self.reporter.began(step)
        elif event.what == "moved":
            self.reporter.moved(step, event.done, event.total)
        elif event.what == "busy":
            del self.running[event.identity]
            self.attempts[event.identity] -= 1
            self.later.append((time.monotonic() + SECONDS_BUSY, event.identity))
        elif event.what == "done":
            del self.running[event.identity]
            self.ran += 1
            self.room.took(event.identity)
            self._finish(event.identity)
            self.reporter.ended(step, event.seconds)
        elif event.failure is not None:
            del self.running[event.identity]
            self._fail(step, event.failure, event.error)

    def _finish(self, identity: str) -> None:
        self.finished.add(identity)
        for reader in self.readers[identity]:
            self.waits_for[reader] -= 1
            if self.waits_for[reader] == 0 and reader not in self.blocked:
                self._make_ready(reader)
        for output in {_key(ref) for ref in self.steps[identity].inputs.values()}:
            self.unread[output] -= 1
            if self.unread[output] <= 0 and output not in self.kept:
                self.room.freed(drop(self.store, output))

    def _fail(self, step: Step, failure: Failure, error: BaseException | None) -> None:
        again = failure.again and self.attempts[step.identity] <= self.policy.retries
        self.reporter.failed(step, failure, again)
        if again:
            self._make_ready(step.identity)
            return
        if failure.input_gone:
            self.input_gone += 1
        elif not self.policy.keep_going and not failure.memory:
            raise error if error is not None else failure.raised()
        self._give_up(Failed(step, failure))

    def _give_up(self, entry: Failed) -> None:
        self.failed[entry.step.identity] = entry
        waiting = list(self.readers[entry.step.identity])
        while waiting:
            reader = waiting.pop()
            if reader not in self.blocked and reader not in self.finished:
                self.blocked[reader] = self.steps[reader]
                waiting.extend(self.readers[reader])

    # -- dropping -----------------------------------------------------------------------------------------------

    def _still_read(self) -> set[OutputOf]:
        """What this graph has yet to read, or was asked to keep."""
        return self.kept | {output for output, count in self.unread.items() if count > 0}

    def _drop_leftovers(self) -> None:
        """What an earlier process left behind when it was killed, or kept for an end of its own."""
        still = self._still_read()
        seen: set[OutputOf] = set()
        for step in self.graph.steps:
            for ref in step.inputs.values():
                if _key(ref) not in still and _key(ref) not in seen:
                    seen.add(_key(ref))
                    drop(self.store, _key(ref))


def _key(ref: Ref) -> OutputOf:
    return ref.step.identity, ref.output
