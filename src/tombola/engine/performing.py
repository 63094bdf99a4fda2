"""Performing one step: inputs from the store, the step's function in a staging folder, one atomic publication.

Every engine comes down to this function, called in some process that may die at any moment.
"""

from __future__ import annotations

import shutil
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tombola import errors, files
from tombola.engine import attempts, rates
from tombola.engine.environment import environment
from tombola.engine.store import DamagedInput, Output, Run, Store
from tombola.engine.work import Work, refuse_other_version
from tombola.errors import StoreError, TombolaError
from tombola.plan.steps import STEPS
from tombola.plan.workplace import Workplace


@dataclass(frozen=True)
class Failure:
    """Why a step could not be done, as it travels from the process that tried.

    ``again``: another attempt may help (a process died, a disk was full). ``memory``: it wants a smaller micro-batch.
    ``input_gone``: what it reads was damaged and set aside, or dropped: the plan must be made again.
    """

    error: str
    what: str
    where: str = ""
    todo: str = ""
    trace: str = ""
    again: bool = False
    memory: bool = False
    input_gone: bool = False

    def raised(self) -> Exception:
        """The error as this process would have met it."""
        kind = getattr(errors, self.error, None)
        if isinstance(kind, type) and issubclass(kind, TombolaError):
            return kind(self.what, where=self.where, todo=self.todo)
        return RuntimeError(f"{self.error}: {self.what}\n{self.trace}")


def perform(
    work: Work,
    store: Store,
    *,
    began: Callable[[], None] = lambda: None,
    moved: Callable[[int, int], None] = lambda _done, _total: None,
) -> float | None:
    """Bring one run about; gives the seconds it took (0 where it was there), or None if another process is at it."""
    lease = store.lease(work.identity)
    if lease is None:
        return None
    try:
        earlier = store.run(work.identity)
        if earlier is not None and all(earlier.has(name) for name in work.wanted):
            return 0.0
        began()
        # Append-only, so that anybody can count: a finished step never begins again but to remake what was dropped.
        remade = {"recompute": sorted(work.wanted)} if earlier is not None else {}
        attempts.note(store.root, "began", work.identity, step=work.kind, label=work.label, **remade)
        try:
            seconds = _execute(work, store, earlier, moved)
        except BaseException as error:
            with suppress(OSError):  # the first error is the one to tell
                told = f"{type(error).__name__}: {error}"[:500]
                attempts.note(store.root, "failed", work.identity, error=told)
            raise
        with suppress(OSError):  # it is done, whether that can be noted or not
            attempts.note(store.root, "finished", work.identity, seconds=round(seconds, 3))
        return seconds
    finally:
        lease.release()


def _execute(work: Work, store: Store, earlier: Run | None, moved: Callable[[int, int], None]) -> float:
    kind = STEPS[work.kind]
    refuse_other_version(work, kind.version)
    scratch = store.scratch(work.identity)
    for leftover in scratch.glob("out-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    staging = scratch / f"out-{uuid.uuid4().hex[:12]}"
    staging.mkdir(parents=True)
    wanted = work.wanted
    if earlier is not None:
        # Whatever transient output is still there must survive the exchange of the folders.
        wanted |= {name for name in earlier.outputs if earlier.has(name) and earlier.outputs[name].transient}
    started = time.perf_counter()
    place = Workplace(
        staging=staging,
        scratch=scratch,
        wanted=wanted,
        progress=lambda done, total, _seconds: moved(done, total),
    )
    inputs = {port: store.path(output) for port, output in work.inputs.items()}
    kind.function(work.parameters, inputs, work.sources, place)
    outputs = {
        name: Output((staging / name).stat().st_size, files.sha256_of(staging / name), transient)
        for name, transient in place.written.items()
    }
    if earlier is not None:
        outputs = _checked_against(earlier, outputs, work)
    store.publish(work, staging, outputs, environment())
    seconds = time.perf_counter() - started
    store.note_timing(work.identity, {"seconds": round(seconds, 3), **place.timing})
    rates.note(store.root, work.kind, work.parameters, place.timing)
    return seconds


def _checked_against(earlier: Run, outputs: Mapping[str, Output], work: Work) -> dict[str, Output]:
    """A recomputation must give the recorded bytes; outputs made for the first time join the record."""
    for name, output in outputs.items():
        before = earlier.outputs.get(name)
        if before is not None and before.sha256 != output.sha256:
            raise StoreError(
                f"recomputing '{work.label or work.kind}' gave other bytes for {name} than the run in the store",
                where=str(earlier.folder),
                todo=f"the run was made under {dict(earlier.environment)}, this machine is {environment()}: use the "
                "same environment, or another store",
            )
    return {**earlier.outputs, **outputs}


def failure_of(error: BaseException) -> Failure:
    """What to tell of an error, and whether to try again."""
    trace = "".join(traceback.format_exception(error))[-4000:]
    if _is_memory(error):
        return Failure(
            "TrainingError",
            "the memory of the device was not enough",
            todo="a smaller batch size, length or micro_batch",
            trace=trace,
            memory=True,
        )
    if isinstance(error, TombolaError):
        return Failure(
            type(error).__name__ if hasattr(errors, type(error).__name__) else "StoreError",
            error.what,
            error.where,
            error.todo,
            input_gone=isinstance(error, DamagedInput),
        )
    if isinstance(error, OSError):
        return Failure(
            "StoreError",
            error.strerror or str(error),
            str(error.filename or ""),
            "check space and rights there",
            trace,
            again=True,
        )
    return Failure(type(error).__name__, str(error), trace=trace, again=True)


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    import torch

    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    # torch has no own class for the allocator of the CPU.
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def failure_json(failure: Failure) -> dict[str, Any]:
    return dict(vars(failure))
