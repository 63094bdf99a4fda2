"""The small protocol of engines: what an executor must be able to do, what it tells, who listens.

The scheduler decides what runs next; an executor only runs it somewhere. ``inline`` runs it in this process,
``local`` in worker processes, ``ray`` on a cluster; another one (Slurm, say) is four functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from tombola.engine.performing import Failure
from tombola.engine.work import Work
from tombola.plan.step import Step


@dataclass(frozen=True)
class Event:
    """What happened to a step. ``busy``: another process has its lease. ``error``: the exception itself, if it
    happened in this process."""

    identity: str
    what: Literal["began", "moved", "done", "busy", "failed"]
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    failure: Failure | None = None
    error: BaseException | None = None


class Executor(Protocol):
    """``slots`` steps may be submitted and unfinished at a time."""

    @property
    def slots(self) -> int: ...
    def start(self, hear: Callable[[Event], None]) -> None:
        """``hear`` is told whatever happens, from within ``wait``."""
        ...

    def submit(self, work: Work) -> None: ...
    def wait(self, timeout: float) -> None:
        """Until something has happened, or so many seconds."""
        ...

    def stop(self) -> None:
        """Let what is under way come to a checkpoint, then end; called once, whatever happened."""
        ...


class Reporter(Protocol):
    """Whoever tells a person how far the work is."""

    def planned(self, pending: tuple[Step, ...], done: int) -> None: ...
    def began(self, step: Step) -> None: ...
    def moved(self, step: Step, done: int, total: int) -> None: ...
    def ended(self, step: Step, seconds: float) -> None: ...
    def failed(self, step: Step, failure: Failure, again: bool) -> None: ...


class Silent:
    """Reports to nobody."""

    def planned(self, pending: tuple[Step, ...], done: int) -> None: ...
    def began(self, step: Step) -> None: ...
    def moved(self, step: Step, done: int, total: int) -> None: ...
    def ended(self, step: Step, seconds: float) -> None: ...
    def failed(self, step: Step, failure: Failure, again: bool) -> None: ...


@dataclass(frozen=True)
class Failed:
    """A step that could not be done, and why."""

    step: Step
    failure: Failure


@dataclass(frozen=True)
class Summary:
    """How a graph came out: what was run, what failed, what could not begin for that, what stands in for what."""

    ran: int
    failed: tuple[Failed, ...] = ()
    blocked: tuple[Step, ...] = ()
    #: planned identity → the step that was run instead
    stands_in: dict[str, Step] | None = None

    @property
    def complete(self) -> bool:
        return not self.failed and not self.blocked
