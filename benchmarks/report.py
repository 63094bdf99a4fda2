"""RESULTS.md: what was reached, the tables, and everything one needs to judge and to repeat them."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One figure that DESIGN 7 asks for: whether ``value`` is at least (or ``at_most``) the target."""

    what: str
    measured: str
    value: float
    target: float | None = None
    at_most: bool = False

    @property
    def reached(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def cells(self) -> tuple[str, str, str, str]:
        target = "report" if self.target is None else f"{'≤' if self.at_most else '≥'} {self.target:g}"
        verdict = {None: "–", True: "yes", False: "**missed**"}[self.reached]
        return self.what, target, self.measured, verdict


@dataclass(frozen=True)
class Section:
    """A heading, what it says, and the rows of it that belong into the summary."""

    title: str
    body: str
    rows: Sequence[Row] = field(default_factory=tuple)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def environment(device: str, threads: int) -> str:
    """The machine and the libraries that the figures hold for."""
    import torch
    import transformers

    facts = {
        "CPU": f"{_cpu_name()}, {os.cpu_count()} cores, capability {torch.backends.cpu.get_cpu_capability()}",
        "device": torch.cuda.get_device_name(0) if device == "cuda" else "CPU",
        "threads a process": threads,
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def write(path: Path, header: str, sections: Sequence[Section]) -> None:
    rows = [row.cells() for section in sections for row in section.rows]
    parts = [
        "# Results of the benchmarks",
        "Written by `make bench`: every number below was measured in one run, the compared sides in turns.",
        header,
        "## Summary",
        table(("what", "reach", "measured", "reached"), rows),
        *(f"## {section.title}\n\n{section.body}" for section in sections),
    ]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def header(
    device: str,
    threads: int,
    began: datetime,
    load: tuple[float, float],
    data: str,
    command: str = "python -m benchmarks",
) -> str:
    """When, where and by which command; ``load`` is the machine's load average before and after."""
    minutes = (datetime.now(UTC) - began).total_seconds() / 60
    command = " ".join([command, *sys.argv[1:]])
    return "\n".join(
        [
            f"- date: {began:%Y-%m-%d %H:%M} UTC, {minutes:.1f} minutes",
            f"- command: `{command}`",
            f"- data: {data}",
            f"- load average of the machine: {load[0]:.2f} before, {load[1]:.2f} at the end "
            "(the run itself makes about 1)",
            environment(device, threads),
        ]
    )


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
