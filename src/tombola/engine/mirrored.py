"""A reporter with a mirror: a tracker hears of every run that ends, and can neither stop nor slow the others."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from tombola.engine.mirror import LATER, Counts, Mirror, Notes, mirror_once, what_happened
from tombola.engine.store import Store

if TYPE_CHECKING:
    from tombola.engine.performing import Failure
    from tombola.engine.protocol import Reporter
    from tombola.plan.step import Step

#: Runs that wait for a slow tracker; of more the oldest are left for ``mirror_all``.
MOST_WAITING = 1000
#: How long the end of a command waits for a tracker.
SECONDS_TO_CLOSE = 5.0


class Mirrored:
    """A reporter that tells ``reporter`` everything, and a tracker of every run that has ended.

    The tracker works in a thread: what it raises is said once and counted, what it is too slow for is counted.
    Use it in a ``with`` block, or close it; that closes the mirror too.
    """

    def __init__(
        self,
        reporter: Reporter,
        store: Store,
        mirror: Mirror,
        *,
        say: Callable[[str], None] = warnings.warn,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._reporter = reporter
        # One of its own: what a store has verified is remembered by the object, which no two threads share.
        self._store = Store(store.root)
        self._mirror = mirror
        self._say = say
        self._said = False
        self._waiting: deque[tuple[str, str]] = deque(maxlen=most_waiting)
        self._news = threading.Condition()
        self._closing = self._late = self._busy = False
        self._mirrored = self._failed = self._dropped = 0
        self._thread = threading.Thread(target=self._work, name="tombola mirror", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> Counts:
        return Counts(self._mirrored, self._failed, self._dropped)

    # -- the reporter -------------------------------------------------------------------------------------------

    def planned(self, pending: tuple[Step, ...], done: int) -> None:
        self._reporter.planned(pending, done)

    def began(self, step: Step) -> None:
        self._reporter.began(step)

    def moved(self, step: Step, done: int, total: int) -> None:
        self._reporter.moved(step, done, total)

    def ended(self, step: Step, seconds: float) -> None:
        # First: a reporter may end everything here (Ctrl-C), and the run is done.
        with self._news:
            self._dropped += len(self._waiting) == self._waiting.maxlen
            self._waiting.append((step.identity, step.label))
            self._news.notify()
        self._reporter.ended(step, seconds)

    def failed(self, step: Step, failure: Failure, again: bool) -> None:
        self._reporter.failed(step, failure, again)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reporter, name)

    # -- the end ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, seconds: float = SECONDS_TO_CLOSE) -> None:
        """Give the tracker so many seconds for what waits; whatever it has not taken by then is counted dropped."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(seconds)
        with self._news:
            self._late = True
            self._dropped += len(self._waiting) + self._busy
            self._waiting.clear()
        if self._dropped:
            self._warn(f"the tracker {self._mirror.name} was too slow for {self._dropped} runs; {LATER}")

    # -- in the thread ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        notes = Notes(self._store.root, self._mirror.name)
        while (run := self._next()) is not None:
            try:
                told = mirror_once(self._store, self._mirror, notes, *run)
            except Exception as error:
                self._count(failed=1)
                self._warn(what_happened(self._mirror, error))
            else:
                self._count(mirrored=int(told))
        with suppress(Exception):
            self._mirror.close()

    def _next(self) -> tuple[str, str] | None:
        with self._news:
            while not self._waiting and not self._closing:
                self._news.wait()
            self._busy = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None

    def _count(self, mirrored: int = 0, failed: int = 0) -> None:
        with self._news:
            self._busy = False
            if not self._late:  # else it was counted as dropped
                self._mirrored += mirrored
                self._failed += failed

    def _warn(self, text: str) -> None:
        with self._news:
            said, self._said = self._said, True
        if not said:
            with suppress(Exception):  # a warning that is an error must not end the thread
                self._say(text)
