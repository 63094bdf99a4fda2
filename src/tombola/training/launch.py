"""Start the processes of one training on this machine, hand each a JSON value, bring the first one's answer.

Nothing is pickled: a process is told the name of a function, ``module:function``, and calls it with the
value. If one fails the others are ended, and its error is raised here. A launcher that is killed takes its
processes along: they live as long as the pipe they were started with.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tombola import errors
from tombola.errors import TombolaError, TrainingError
from tombola.files import read_json, write_json
from tombola.training.recipe import Numerics

#: Seconds that a process gets to end by itself once another has failed.
GRACE = 5.0
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def launch(
    target: str, value: Mapping[str, Any], numerics: Numerics, *, on_line: Callable[[str], None] | None = None
) -> Any:
    """Call ``target`` with ``value`` in ``numerics.world_size`` processes; gives what the first one answers.

    ``on_line`` hears what the first process prints, line by line (its progress, say).
    """
    from torch.distributed import TCPStore

    # This process keeps the meeting point, so that no free port can be taken between looking and using.
    meeting = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with tempfile.TemporaryDirectory(prefix="tombola-launch-") as name:
        folder = Path(name)
        processes: list[subprocess.Popen[str]] = []
        try:
            for rank in range(numerics.world_size):
                processes.append(_start(rank, target, value, numerics, meeting.port, folder))
            deaf: list[BaseException] = []
            reader = threading.Thread(target=_read, args=(processes[0].stdout, on_line, deaf), daemon=True)
            reader.start()
            failed = _wait(processes, deaf)
            if not deaf:
                reader.join(GRACE)
        finally:
            _end(processes)
        if deaf:
            raise deaf[0]
        return _answer(folder, processes, failed)


def _start(
    rank: int, target: str, value: Mapping[str, Any], numerics: Numerics, port: int, folder: Path
) -> subprocess.Popen[str]:
    size = numerics.world_size
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "OMP_NUM_THREADS": str(numerics.threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
    if sys.platform in LOOPBACK:
        environment.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    with open(folder / f"stderr-{rank}", "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "tombola.training.launch", target, str(folder / f"answer-{rank}.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            stderr=stderr,
            env=environment,
            text=True,
        )
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it has ended already: _answer tells why
            process.stdin.write(json.dumps(dict(value), allow_nan=False) + "\n")
            process.stdin.flush()
    return process


def _read(lines: IO[str] | None, on_line: Callable[[str], None] | None, deaf: list[BaseException]) -> None:
    """Hand on what the first process prints; an error of the listener ends the launch, not this thread."""
    for line in lines or ():
        if on_line is not None and not deaf:
            try:
                on_line(line.rstrip("\n"))
            except BaseException as error:
                deaf.append(error)


def _wait(processes: list[subprocess.Popen[str]], deaf: list[BaseException]) -> list[int]:
    """Until all have ended, or one has ended badly and the others had time to; who failed, in that order."""
    failed: list[int] = []
    patience = float("inf")
    while time.monotonic() < patience and not deaf:
        running = [process.poll() is None for process in processes]
        failed += [
            rank for rank, process in enumerate(processes) if process.returncode and rank not in failed
        ]
        if not any(running):
            break
        if failed:
            patience = min(patience, time.monotonic() + GRACE)
        time.sleep(0.02)
    return failed


def _end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _answer(folder: Path, processes: list[subprocess.Popen[str]], failed: list[int]) -> Any:
    """The first process's answer; or the error of one that knew why it failed, else the first failure."""
    if not failed:
        return read_json(folder / "answer-0.json")["answer"]
    for rank in failed:
        path = folder / f"answer-{rank}.json"
        if path.exists():
            told = read_json(path)["error"]
            kind = getattr(errors, told["kind"], TrainingError)
            raise kind(told["what"], where=told["where"], todo=told["todo"])
    said = (folder / f"stderr-{failed[0]}").read_text(errors="replace").strip().splitlines()[-15:]
    raise TrainingError(
        f"process {failed[0]} of {len(processes)} ended with status {processes[failed[0]].returncode}",
        where="\n".join(said) or "it said nothing",
        todo="look at what it said; started again, the training goes on from its last checkpoint",
    )


def _work(target: str, answer: Path) -> None:
    """What a started process does."""
    value = json.loads(sys.stdin.readline())
    threading.Thread(target=_live_with_the_launcher, daemon=True).start()
    module, _, function = target.partition(":")
    try:
        result = getattr(importlib.import_module(module), function)(value)
    except TombolaError as error:
        told = {"kind": type(error).__name__, "what": error.what, "where": error.where, "todo": error.todo}
        write_json(answer, {"error": told})
        raise
    write_json(answer, {"answer": result})


def _live_with_the_launcher() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock would be held when this process ends
        pass
    os._exit(1)


if __name__ == "__main__":
    _work(sys.argv[1], Path(sys.argv[2]))
