"""How far the work is: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tombola.engine.performing import Failure
    from tombola.plan.step import Step

#: Plain lines are for logs: one every so many seconds says enough.
SECONDS_BETWEEN_LINES = 15.0


class Lines:
    """Plain lines on stderr: one a finished training, and one now and then within a long one."""

    def __init__(self) -> None:
        self._clock = _Clock()
        self._last = 0.0
        self._numbers: dict[str, int] = {}

    def planned(self, pending: tuple[Step, ...], done: int) -> None:
        self._clock.plan(pending)
        self._numbers = {step.identity: number for number, step in enumerate(pending, start=1)}
        _say(f"{len(pending)} steps to do, {done} done before")

    def began(self, step: Step) -> None:
        self._last = time.monotonic()

    def moved(self, step: Step, done: int, total: int) -> None:
        self._clock.move(step, done)
        if time.monotonic() - self._last > SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            _say(f"  {step.label}: step {done} of {total}, {self._clock.left()} left in all")

    def ended(self, step: Step, seconds: float) -> None:
        self._clock.finish(step)
        number = self._numbers.get(step.identity, 0)
        _say(
            f"[{number}/{len(self._numbers)}] {step.label}: {seconds:.1f} s, {self._clock.left()} left in all"
        )

    def failed(self, step: Step, failure: Failure, again: bool) -> None:
        self._clock.move(step, 0)
        _say(f"  {step.label}: {'tried again after' if again else 'FAILED:'} {failure.what}")

    def close(self) -> None:
        pass


class Bar:
    """One live bar over all trainings, weighted by their optimizer steps."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._clock = _Clock()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %  {task.fields[left]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task: Any = None

    def planned(self, pending: tuple[Step, ...], done: int) -> None:
        self._clock.plan(pending)
        if pending:
            self._bar.start()
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task("planning", total=max(self._clock.total, 1), left="")

    def began(self, step: Step) -> None:
        self._show(step)

    def moved(self, step: Step, done: int, total: int) -> None:
        self._clock.move(step, done)
        self._show(step)

    def ended(self, step: Step, seconds: float) -> None:
        self._clock.finish(step)
        self._show(step)

    def failed(self, step: Step, failure: Failure, again: bool) -> None:
        self._clock.move(step, 0)
        self._bar.console.print(
            f"{step.label}: {'tried again after' if again else 'FAILED:'} {failure.what}",
            markup=False,
            highlight=False,
        )

    def close(self) -> None:
        self._bar.stop()

    def _show(self, step: Step) -> None:
        if self._task is not None:
            self._bar.update(
                self._task,
                description=step.label or step.kind,
                completed=self._clock.done,
                left=f"{self._clock.left()} left",
            )


class _Clock:
    """Optimizer steps done and to do, and the rate of this very run."""

    def __init__(self) -> None:
        self.total = 0
        self._finished = 0
        self._current = 0
        self._skipped = 0
        self._first: dict[str, int] = {}
        self._started = time.monotonic()

    @property
    def done(self) -> int:
        return self._finished + self._current

    def plan(self, pending: tuple[Step, ...]) -> None:
        self.total = sum(step.cost for step in pending)
        self._finished = self._current = self._skipped = 0
        self._first.clear()
        self._started = time.monotonic()

    def move(self, step: Step, done: int) -> None:
        # A resumed training begins in its middle: what a former process did says nothing about this one's rate.
        if step.identity not in self._first:
            self._first[step.identity] = max(done - 1, 0)
            self._skipped += max(done - 1, 0)
        self._current = min(done, step.cost)

    def finish(self, step: Step) -> None:
        self._finished += step.cost
        self._current = 0

    def left(self) -> str:
        worked = self.done - self._skipped
        if worked <= 0:
            return "time unknown"
        seconds = (time.monotonic() - self._started) / worked * max(self.total - self.done, 0)
        return duration(seconds)


class Watched:
    """A reporter that turns Ctrl-C within a training into a stop between two steps, where a checkpoint is written.

    The second Ctrl-C, or one outside a training, stops at once: the last checkpoint is then the periodic one.
    """

    def __init__(self, shown: Lines | Bar) -> None:
        self._shown = shown
        self._within_training = False
        self._asked = False
        self._former: Any = None

    def __enter__(self) -> Watched:
        self._former = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        signal.signal(signal.SIGINT, self._former)
        self._shown.close()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            _say(
                "tombola: stopped. Finished runs are kept; the training under way goes on from its checkpoint\n"
                "  to do: type the same command again"
            )

    def _interrupted(self, *_: object) -> None:
        if self._asked or not self._within_training:
            raise KeyboardInterrupt
        self._asked = True
        _say("stopping after this step …")

    def planned(self, pending: tuple[Step, ...], done: int) -> None:
        self._shown.planned(pending, done)

    def began(self, step: Step) -> None:
        self._shown.began(step)

    def moved(self, step: Step, done: int, total: int) -> None:
        self._within_training = done < total
        self._shown.moved(step, done, total)
        self._stop_if_asked()

    def ended(self, step: Step, seconds: float) -> None:
        self._within_training = False
        self._shown.ended(step, seconds)
        self._stop_if_asked()

    def failed(self, step: Step, failure: Failure, again: bool) -> None:
        self._within_training = False
        self._shown.failed(step, failure, again)
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._asked:
            raise KeyboardInterrupt


def duration(seconds: float) -> str:
    """``42 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def reporter() -> Watched:
    """A bar where a person is looking, lines where a file is written; to be used in a ``with`` block."""
    return Watched(Bar() if sys.stderr.isatty() else Lines())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
