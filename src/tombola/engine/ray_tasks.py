"""The Ray engine: one Ray Core task a step, on this machine or on a cluster whose nodes share the store's folder.

Nothing but JSON text travels through Ray: the order of a step there, its seconds or its failure back. Inputs and
results are in the store; how far a step is stands in a small file beside its checkpoints.
"""

from __future__ import annotations

import json
import os
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tombola.engine.held import Held, hold
from tombola.engine.performing import Failure, failure_json
from tombola.engine.protocol import Event
from tombola.engine.ray_connection import connection, imported_ray
from tombola.engine.ray_step import PROGRESS, SECONDS_BETWEEN_NOTES, do_step
from tombola.engine.work import Work
from tombola.errors import StoreError, UsageError

#: How often the cluster is asked which nodes it has now.
SECONDS_BETWEEN_LOOKS = 10.0
#: How long the tasks of a stopping engine may take to write their checkpoints.
SECONDS_TO_STOP = 60.0


@dataclass
class _Task:
    work: Work
    #: marks the notes of this attempt: an earlier one may have left its own
    token: str
    heard: Mapping[str, Any] | None = None


class Ray:
    """``workers`` tasks at a time, each with ``threads`` CPUs and, where ``gpus`` and its step says cuda, one GPU.

    Without an ``address`` Ray is started here and shut down again; a Ray that this process is connected to already
    is used as it is. ``workers`` None: as many as the cluster has room for, nodes that join later included.
    ``preload`` names modules that a worker imports first.
    """

    def __init__(
        self,
        root: Path | str,
        address: str | None = None,
        workers: int | None = None,
        *,
        threads: int = 1,
        gpus: bool = False,
        preload: tuple[str, ...] = (),
    ) -> None:
        if workers is not None and workers < 1:
            raise UsageError(f"{workers} workers can do nothing", where="--workers", todo="give 1 or more")
        self._ray = imported_ray()
        # A worker on another node has another current folder.
        self._root = Path(root).expanduser().absolute()
        self._address = address
        self._workers = workers
        self._threads = threads
        self._gpus = gpus
        self._preload = preload
        self._tasks: dict[Any, _Task] = {}
        self._connected = False
        self._ours = ExitStack()
        self._room = 0
        self._looked_at = self._read_at = -SECONDS_BETWEEN_LOOKS
        self._warned = False
        self._mark: Held | None = None

    @property
    def slots(self) -> int:
        """At least one: what no node has room for yet waits in Ray until one joins."""
        return self._workers or max(self._room_now(), 1)

    def start(self, hear: Callable[[Event], None]) -> None:
        self._hear = hear
        if self._connected:
            return
        if not self._ray.is_initialized():
            cpus = self._threads * (self._workers or max(_cores() // self._threads, 1))
            self._ours = connection(self._ray, self._address, cpus=cpus, gpus=self._gpus)
        self._connected = True
        self._run = self._ray.remote(do_step)
        if self._room_now() < 1 and (self._workers is None or self._address is None):
            raise UsageError(
                f"no node of this Ray has {self._wanted()}",
                where=self._address or "ray",
                todo="plan with other numerics (threads, device) or add a node; a cluster that grows when it is "
                "asked to is given --workers N",
            )

    def submit(self, work: Work) -> None:
        # Held while this engine lives, so that a worker can see that its folder of this name is the same one.
        if self._mark is None or not self._mark.path.exists():
            self._mark = hold(self._root / "readers" / f"ray-{uuid.uuid4().hex}")
        token = uuid.uuid4().hex
        order = {
            "work": work.to_json(),
            "root": str(self._root),
            "mark": self._mark.path.name if self._mark else "",
            "token": token,
            "preload": self._preload,
            # Names of models and data may be relative to where the command was typed.
            "folder": os.getcwd(),
        }
        on_gpu = self._gpus and (work.parameters.get("numerics") or {}).get("device") == "cuda"
        task = self._run.options(
            name=work.label or work.kind,
            num_cpus=self._threads,
            num_gpus=1 if on_gpu else 0,
            max_retries=0,  # the scheduler decides what is tried again
            runtime_env={"env_vars": _variables(self._threads)},
        )
        self._tasks[task.remote(json.dumps(order))] = _Task(work, token)

    def wait(self, timeout: float) -> None:
        waiting = list(self._tasks)
        ready, _ = self._ray.wait(waiting, timeout=min(timeout, SECONDS_BETWEEN_NOTES))
        if ready:
            ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        for reference in ready:
            self._take(reference)
        now = time.monotonic()
        if now - self._read_at >= SECONDS_BETWEEN_NOTES:
            self._read_at = now
            for task in list(self._tasks.values()):
                self._read_note(task)
        if self._room_now() < 1 and not self._warned:
            self._warned = True
            warnings.warn(f"no node of this Ray has {self._wanted()}: waiting for one", stacklevel=2)

    def stop(self) -> None:
        """All tasks are told at once; those that do not end in time are killed."""
        if not self._connected:
            return
        self._connected = False
        waiting = list(self._tasks)
        self._tasks.clear()
        try:
            if waiting and self._ray.is_initialized():
                self._end(waiting)
        finally:
            if self._mark is not None:
                self._mark.release()
            self._ours.close()

    # -- tasks --------------------------------------------------------------------------------------------------

    def _take(self, reference: Any) -> None:
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

        task = self._tasks.pop(reference)
        answer: dict[str, Any]
        try:
            answer = json.loads(self._ray.get(reference))
        except RayTaskError as error:
            raise _could_not_begin(str(error)) from None
        except OutOfMemoryError as error:
            answer = {"failed": failure_json(_killed_for_memory(error))}
        except RayError as error:
            answer = {"failed": failure_json(_died(error))}
        for text in answer.get("warnings", ()):
            warnings.warn(text, stacklevel=2)
        identity = task.work.identity
        if answer.get("began") and task.heard is None:
            self._hear(Event(identity, "began"))
        if "finished" in answer:
            self._hear(Event(identity, "done", seconds=answer["finished"]))
        elif "busy" in answer:
            self._hear(Event(identity, "busy"))
        elif "failed" in answer:
            self._hear(Event(identity, "failed", failure=Failure(**answer["failed"])))
        elif "unable" in answer:
            raise _could_not_begin(answer["unable"])
        else:
            failure = Failure("StoreError", "somebody else cancelled its Ray task", again=True)
            self._hear(Event(identity, "failed", failure=failure))

    def _read_note(self, task: _Task) -> None:
        """How far the step says it is; a note that is missing or torn says nothing."""
        path = self._root / "running" / task.work.identity / PROGRESS
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            token, done, total = note["token"], int(note["done"]), int(note["total"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        if token != task.token or note == task.heard:
            return
        first, task.heard = task.heard is None, note
        if first:
            self._hear(Event(task.work.identity, "began"))
        if total:
            self._hear(Event(task.work.identity, "moved", done, total))

    def _end(self, waiting: list[Any]) -> None:
        from ray.exceptions import RayError

        with suppress(RayError):  # a cluster that has gone has no tasks to end
            for reference in waiting:
                self._ray.cancel(reference, force=False)
            _, late = self._ray.wait(waiting, num_returns=len(waiting), timeout=SECONDS_TO_STOP)
            for reference in late:
                self._ray.cancel(reference, force=True)

    # -- nodes --------------------------------------------------------------------------------------------------

    def _room_now(self) -> int:
        """How many steps the living nodes can take at a time."""
        if self._connected and time.monotonic() - self._looked_at >= SECONDS_BETWEEN_LOOKS:
            self._looked_at = time.monotonic()
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._room = sum(self._room_of(resources) for resources in nodes)
        return self._room

    def _room_of(self, resources: Mapping[str, float]) -> int:
        room = int(resources.get("CPU", 0) // self._threads)
        return min(room, int(resources.get("GPU", 0))) if self._gpus else room

    def _wanted(self) -> str:
        return f"{self._threads} CPU{'s' if self._threads > 1 else ''}{' and a GPU' if self._gpus else ''}"


def _died(error: Exception) -> Failure:
    return Failure(
        "StoreError",
        f"its Ray worker or node died ({type(error).__name__})",
        todo="start again: it goes on from its last checkpoint",
        trace=str(error)[:2000],
        again=True,
    )


def _killed_for_memory(error: Exception) -> Failure:
    return Failure(
        "TrainingError",
        "the memory of the node was not enough: Ray killed the worker",
        todo="a smaller batch size, length or micro_batch, or fewer --workers",
        trace=str(error)[:2000],
        memory=True,
    )


def _could_not_begin(trace: str) -> StoreError:
    return StoreError(
        "a Ray worker could not begin its step",
        where="ray",
        todo=f"every node needs the same tombola and the store's folder; the worker said:\n{trace[-2000:]}",
    )


def _variables(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {**dict.fromkeys(names, str(threads)), "TOKENIZERS_PARALLELISM": "false"}


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
