"""A way of training in a process of its own, which takes one step at a time when it is told to.

A process each, because the ways would otherwise share one heap: what a wide step leaves the allocator with
changes what the next narrow one costs. All processes wait but one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Self

from benchmarks.setting import Setting, wait_for

ROOT = Path(__file__).resolve().parents[1]


class Stopped(Exception):
    """The parent wants no more steps."""


class Worker:
    """The parent's side: ``step()`` lets the process make its next step and gives the seconds it took."""

    def __init__(self, way: str, setting: Setting) -> None:
        self.way = way
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(setting.threads),
            "MKL_NUM_THREADS": str(setting.threads),
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(ROOT),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", way, setting.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def step(self) -> float:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise RuntimeError(f"the process of '{self.way}' has no pipes")
        pipe_in.write("go\n")
        pipe_in.flush()
        line = pipe_out.readline()
        if not line:
            raise RuntimeError(f"the process of '{self.way}' ended: see what it said above")
        return float(line)

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Turns:
    """The child's side: waits for its turn, and tells how long the step since then took."""

    def __init__(self, device: str, told: IO[str], tells: IO[str]) -> None:
        self._device, self._told, self._tells = device, told, tells
        self._began = 0.0

    def wait(self) -> None:
        if not self._told.readline():
            raise Stopped
        self._began = time.perf_counter()

    def __call__(self) -> None:
        wait_for(self._device)
        self._tells.write(f"{time.perf_counter() - self._began}\n")
        self._tells.flush()
        self.wait()


def main(name: str, described: str) -> None:
    import torch

    from benchmarks.batches import sample
    from benchmarks.search_ways import SEARCH_WAYS
    from benchmarks.ways import WAYS

    setting, way = Setting.from_json(described), (WAYS | SEARCH_WAYS)[name]
    torch.set_num_threads(setting.threads)
    with os.fdopen(os.dup(1), "w") as tells:
        os.dup2(2, 1)  # whatever a library prints is no answer
        turns = Turns(setting.device, sys.stdin, tells)
        batches = sample(setting, way.grouping, 1 if way.padded else setting.strata)
        try:
            turns.wait()
            way.loop(setting, batches, turns)
        except Stopped:
            pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
