"""The inline engine: runs what a graph still needs in this process, one step after the other.

The store is the truth. A step that is done is never run again; a step that was interrupted goes on from its last
checkpoint; a transient output (weights) that was dropped is recomputed when a step needs it, and must come out with
the bytes that were recorded.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from tombola import files
from tombola.engine.environment import environment
from tombola.engine.store import Output, Run, Store
from tombola.errors import StoreError
from tombola.plan.graph import Graph
from tombola.plan.step import Ref, Step
from tombola.plan.steps import STEPS
from tombola.plan.workplace import Workplace


class Reporter(Protocol):
    """Whoever tells a person how far the work is."""

    def planned(self, pending: tuple[Step, ...], done: int) -> None: ...
    def began(self, step: Step) -> None: ...
    def moved(self, step: Step, done: int, total: int) -> None: ...
    def ended(self, step: Step, seconds: float) -> None: ...


class Silent:
    """Reports to nobody."""

    def planned(self, pending: tuple[Step, ...], done: int) -> None: ...
    def began(self, step: Step) -> None: ...
    def moved(self, step: Step, done: int, total: int) -> None: ...
    def ended(self, step: Step, seconds: float) -> None: ...


def pending(graph: Graph, store: Store) -> dict[str, set[str]]:
    """Identity → transient outputs to make, for every step that must run; nothing for what is done."""
    needs: dict[str, set[str]] = {step.identity: set() for step in graph.wanted}
    for ref in graph.outputs:
        needs.setdefault(ref.step.identity, set()).add(ref.output)
    work: dict[str, set[str]] = {}
    for step in reversed(graph.steps):
        wanted = needs.get(step.identity)
        if wanted is None or _is_there(store.run(step.identity), wanted):
            continue
        work[step.identity] = wanted
        for ref in step.inputs.values():
            needs.setdefault(ref.step.identity, set()).add(ref.output)
    return work


def run(graph: Graph, store: Store, *, reporter: Reporter | None = None) -> None:
    """Bring every wanted result of ``graph`` into ``store``.

    Results are pulled from their ends: a step runs only if something that is not done yet reads it, so that of two
    processes on one store neither makes again what the other has finished with.
    """
    reporter = reporter or Silent()
    work = pending(graph, store)
    to_run = tuple(step for step in graph.steps if step.identity in work)
    reporter.planned(to_run, len(graph.steps) - len(to_run))
    inputs = {_key(ref): ref for step in to_run for ref in step.inputs.values()}
    readers = Counter(_key(ref) for step in to_run for ref in step.inputs.values())
    ends = [(step, set[str]()) for step in graph.wanted] + [(ref.step, {ref.output}) for ref in graph.outputs]
    with store.reading(inputs.values()):
        for step, outputs in ends:
            for finished in _bring_about(step, outputs, work, store, reporter):
                for ref in finished.inputs.values():
                    readers[_key(ref)] -= 1
                    if readers[_key(ref)] <= 0:
                        _release(ref, graph, store)
    # What an earlier process left behind when it was killed, or kept for an end of its own.
    for step in graph.steps:
        for ref in step.inputs.values():
            _release(ref, graph, store)


def _key(ref: Ref) -> tuple[str, str]:
    return ref.step.identity, ref.output


def _release(ref: Ref, graph: Graph, store: Store) -> None:
    if ref not in graph.outputs:
        store.drop(ref)


def _bring_about(
    step: Step, outputs: set[str], work: dict[str, set[str]], store: Store, reporter: Reporter
) -> Iterator[Step]:
    """Run one step and, first, whatever it reads and is not there; gives each step that is done now."""
    if _is_there(store.run(step.identity), outputs):
        return
    for ref in step.inputs.values():
        yield from _bring_about(ref.step, {ref.output}, work, store, reporter)
    wanted = frozenset(outputs | work.get(step.identity, set()))
    with store.lock(step.identity):
        earlier = store.run(step.identity)
        if not _is_there(earlier, outputs):
            _execute(step, wanted, earlier, store, reporter)
    yield step


def _execute(
    step: Step, wanted: frozenset[str], earlier: Run | None, store: Store, reporter: Reporter
) -> None:
    scratch = store.scratch(step.identity)
    staging = scratch / "out"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    if earlier is not None:
        # Whatever transient output is still there must survive the exchange of the folders.
        wanted = wanted | {
            name for name in earlier.outputs if earlier.has(name) and earlier.outputs[name].transient
        }
    reporter.began(step)
    started = time.perf_counter()
    work = Workplace(
        staging=staging,
        scratch=scratch,
        wanted=wanted,
        progress=lambda done, total, _seconds: reporter.moved(step, done, total),
    )
    inputs = {port: store.path(ref) for port, ref in step.inputs.items()}
    kind = STEPS[step.kind]
    if kind.version != step.version:
        raise StoreError(
            f"step '{step.kind}' is planned in version {step.version}, this tombola computes version {kind.version}",
            todo="plan it again with this version",
        )
    kind.function(step.parameters, inputs, step.sources, work)
    outputs = {
        name: Output((staging / name).stat().st_size, files.sha256_of(staging / name), transient)
        for name, transient in work.written.items()
    }
    if earlier is not None:
        outputs = _checked_against(earlier, outputs, step)
    store.publish(step, staging, outputs, environment())
    seconds = time.perf_counter() - started
    store.note_timing(step.identity, {"seconds": round(seconds, 3), **work.timing})
    reporter.ended(step, seconds)


def _checked_against(earlier: Run, outputs: Mapping[str, Output], step: Step) -> dict[str, Output]:
    """A recomputation must give the recorded bytes; outputs made for the first time join the record."""
    for name, output in outputs.items():
        before = earlier.outputs.get(name)
        if before is not None and before.sha256 != output.sha256:
            raise StoreError(
                f"recomputing '{step.label or step.kind}' gave other bytes for {name} than the run in the store",
                where=str(earlier.folder),
                todo=f"the run was made under {dict(earlier.environment)}, this machine is {environment()}: use the "
                "same environment, or another store",
            )
    return {**earlier.outputs, **outputs}


def _is_there(run: Run | None, wanted: set[str] | frozenset[str]) -> bool:
    return run is not None and all(run.has(name) for name in wanted)
