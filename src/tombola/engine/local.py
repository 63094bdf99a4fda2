"""The local engine: worker processes of this machine, one step each at a time, one GPU each where steps want one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from tombola.engine.held import Held, hold
from tombola.engine.performing import Failure
from tombola.engine.protocol import Event
from tombola.engine.work import Work
from tombola.errors import StoreError, UsageError

#: How long a stopping worker may take to write its checkpoint.
SECONDS_TO_STOP = 60.0
LONGEST_LAST_WORDS = 2000


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    last_words: IO[bytes]
    gpu: Held | None
    ready: bool = False
    work: Work | None = None
    #: how often the machine had killed for memory when this worker was given its work
    kills: int = field(default=0)


class Local:
    """``workers`` processes, started when they are first needed and again when one dies.

    ``threads`` is what each may use, ``gpus`` whether each leases a GPU of its own. ``preload`` names modules that a
    worker imports first.
    """

    def __init__(
        self,
        root: Path | str,
        workers: int | None = None,
        *,
        threads: int = 1,
        gpus: bool = False,
        preload: tuple[str, ...] = (),
    ) -> None:
        if workers is not None and workers < 1:
            raise UsageError(f"{workers} workers can do nothing", where="--workers", todo="give 1 or more")
        self._root = str(root)
        self._threads = threads
        self._gpus = _visible_gpus() if gpus else None
        self._preload = preload
        most = len(self._gpus) if self._gpus is not None else max(_cores() // threads, 1)
        self.slots = min(workers or most, most) if gpus else workers or most
        if self.slots < 1:
            raise UsageError(
                "the steps want a GPU and there is none here",
                where="device",
                todo="plan them with --set numerics.device=cpu, or use a machine that has one",
            )
        self._workers: list[_Worker] = []
        self._news: SimpleQueue[tuple[_Worker, dict[str, Any] | None]] = SimpleQueue()

    def start(self, hear: Callable[[Event], None]) -> None:
        self._hear = hear

    def submit(self, work: Work) -> None:
        worker = next((worker for worker in self._workers if worker.work is None), None) or self._hire()
        worker.work = work
        worker.kills = _memory_kills()
        self._send(worker, work.to_json())

    def wait(self, timeout: float) -> None:
        try:
            news = self._news.get(timeout=timeout)
        except Empty:
            return
        while True:
            self._take(*news)
            try:
                news = self._news.get_nowait()
            except Empty:
                return

    def stop(self) -> None:
        """Every worker is told at once, so that their checkpoints are written side by side."""
        for worker in self._workers:
            self._send(worker, {"stop": True})
        until = time.monotonic() + SECONDS_TO_STOP
        for worker in self._workers:
            try:
                worker.process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                worker.process.kill()
            self._dismiss(worker)
        self._workers.clear()

    # -- workers ------------------------------------------------------------------------------------------------

    def _hire(self) -> _Worker:
        gpu = self._lease_gpu()
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[name] = str(self._threads)
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu.path.name.partition("-")[2]
        last_words = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the worker has ended
        worker = _Worker(
            subprocess.Popen(
                [sys.executable, "-m", "tombola.engine.worker", self._root, *self._preload],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=last_words,
                env=environment,
                # Ctrl-C in the terminal is for the parent alone.
                start_new_session=True,
            ),
            last_words,
            gpu,
        )
        self._workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        return worker

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        with worker.process.stdout as messages:
            for line in messages:
                with suppress(json.JSONDecodeError):  # a line torn by its writer's death
                    self._news.put((worker, json.loads(line)))
        self._news.put((worker, None))

    def _send(self, worker: _Worker, message: Mapping[str, Any]) -> None:
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: its end is heard of by the listener
            worker.process.stdin.write((json.dumps(message) + "\n").encode())
            worker.process.stdin.flush()

    def _take(self, worker: _Worker, message: dict[str, Any] | None) -> None:
        match message:
            case None:
                self._mourn(worker)
            case {"ready": _}:
                worker.ready = True
            case {"warning": text}:
                warnings.warn(text, stacklevel=2)
            case {"began": identity}:
                self._hear(Event(identity, "began"))
            case {"moved": identity, "done": done, "total": total}:
                self._hear(Event(identity, "moved", done, total))
            case {"busy": identity}:
                worker.work = None
                self._hear(Event(identity, "busy"))
            case {"finished": identity, "seconds": seconds}:
                worker.work = None
                self._hear(Event(identity, "done", seconds=seconds))
            case {"failed": identity, "failure": failure}:
                worker.work = None
                self._hear(Event(identity, "failed", failure=Failure(**failure)))

    def _mourn(self, worker: _Worker) -> None:
        """A worker has ended: its step is tried again, unless the worker gave up before it could even start."""
        self._workers.remove(worker)
        status = worker.process.wait()
        words = self._dismiss(worker)
        if not worker.ready and status >= 0:
            raise StoreError(
                f"a worker process could not start (exit status {status})",
                where=self._root,
                todo=f"what it said last:\n{words}",
            )
        if worker.work is not None:
            by = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            memory = _memory_kills() > worker.kills
            failure = Failure(
                "StoreError",
                f"its worker process died ({by})",
                todo="start again: it goes on from its last checkpoint",
                trace=words,
                again=not memory,
                memory=memory,
            )
            self._hear(Event(worker.work.identity, "failed", failure=failure))

    def _dismiss(self, worker: _Worker) -> str:
        """Close what belongs to a worker that has ended; its last words."""
        worker.process.wait()
        assert worker.process.stdin is not None
        with suppress(BrokenPipeError):
            worker.process.stdin.close()
        size = worker.last_words.seek(0, os.SEEK_END)
        worker.last_words.seek(max(size - LONGEST_LAST_WORDS, 0))
        words = worker.last_words.read().decode(errors="replace")
        worker.last_words.close()
        if worker.gpu is not None:
            worker.gpu.release()
        return words

    def _lease_gpu(self) -> Held | None:
        """A GPU that no other tombola of this machine and user works on."""
        if self._gpus is None:
            return None
        folder = Path(tempfile.gettempdir()) / f"tombola-gpus-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        for gpu in self._gpus:
            held = hold(folder / f"gpu-{gpu}")
            if held is not None:
                return held
        raise StoreError(
            f"all {len(self._gpus)} GPUs of this machine are leased by other tombola processes",
            where=", ".join(self._gpus),
            todo="wait for them, give fewer --workers, or choose GPUs with CUDA_VISIBLE_DEVICES",
        )


def _visible_gpus() -> list[str]:
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip() not in ("", "-1")]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _memory_kills() -> int:
    """How often the kernel has killed a process of this control group for want of memory; 0 where it is not told."""
    for place in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        with suppress(OSError, ValueError):
            for line in Path(place).read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    return 0
