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
    """Plain lines on stderr: one a finished training, and one now and then within long ones."""

    def __init__(self) -> None:
        self._clock = _Clock()
        self._last = 0.0

    def planned(self, pending: tuple[Step, ...], done: int) -> None:
        self._clock.plan(pending)
        self._last = time.monotonic()
        _say(f"{len(pending)} steps to do, {done} done before")

    def began(self, step: Step) -> None:
        self._clock.begin(step)

    def moved(self, step: Step, done: int, total: int) -> None:
        self._clock.move(step, done)
        if time.monotonic() - self._last > SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            _say(f"  {step.label}: step {done} of {total}; {self._clock.told()}")

    def ended(self, step: Step, seconds: float) -> None:
        self._clock.finish(step)
        self._last = time.monotonic()
        _say(f"[{self._clock.ended}/{self._clock.steps}] {step.label}: {seconds:.1f} s; {self._clock.told()}")

    def failed(self, step: Step, failure: Failure, again: bool) -> None:
        self._clock.fail(step, again)
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
            TextColumn("{task.percentage:>3.0f} %  {task.fields[told]}"),
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
            self._task = self._bar.add_task("planning", total=max(self._clock.total, 1), told="")

    def began(self, step: Step) -> None:
        self._clock.begin(step)
        self._show(step)

    def moved(self, step: Step, done: int, total: int) -> None:
        self._clock.move(step, done)
        self._show(step)

    def ended(self, step: Step, seconds: float) -> None:
        self._clock.finish(step)
        self._show(step)

    def failed(self, step: Step, failure: Failure, again: bool) -> None:
        self._clock.fail(step, again)
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
                told=self._clock.told(),
            )


class _Clock:
    """Optimizer steps done and to do, the rate of this very run, and how many steps run, wait or have failed."""

    def __init__(self) -> None:
        self._failed: set[str] = set()
        self.plan(())

    @property
    def done(self) -> int:
        return self._finished + sum(self._under_way.values())

    def plan(self, pending: tuple[Step, ...]) -> None:
        self.total = sum(step.cost for step in pending)
        self.steps, self.ended = len(pending), 0
        self._finished = self._skipped = 0
        #: optimizer steps done of every step that runs now
        self._under_way: dict[str, int] = {}
        self._begun_at: dict[str, int] = {}
        self._started = time.monotonic()

    def begin(self, step: Step) -> None:
        self._under_way.setdefault(step.identity, 0)

    def move(self, step: Step, done: int) -> None:
        # A resumed training begins in its middle: what a former process did says nothing about this one's rate.
        if step.identity not in self._begun_at:
            self._begun_at[step.identity] = max(done - 1, 0)
            self._skipped += max(done - 1, 0)
        self._under_way[step.identity] = min(done, step.cost)

    def finish(self, step: Step) -> None:
        self._under_way.pop(step.identity, None)
        self._failed.discard(step.identity)
        self._finished += step.cost
        self.ended += 1

    def fail(self, step: Step, again: bool) -> None:
        self._under_way.pop(step.identity, None)
        self._skipped -= self._begun_at.pop(step.identity, 0)
        if not again:
            self._failed.add(step.identity)

    def told(self) -> str:
        """``2 running, 31 waiting, 12 min 03 s left``."""
        running = len(self._under_way)
        failed = f", {len(self._failed)} failed" if self._failed else ""
        waiting = max(self.steps - self.ended - running - len(self._failed), 0)
        return f"{running} running, {waiting} waiting{failed}, {self.left()} left"

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
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        if self._within_training:
            _say("stopping after this step …")
            return
        # Workers may need a while to end: better said than wondered about.
        _say("stopping …")
        raise KeyboardInterrupt

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
