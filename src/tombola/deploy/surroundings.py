"""Where something was measured: a time without its machine, threads and versions says nothing."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Self

#: What may have done the arithmetic.
LIBRARIES = ("torch", "transformers")


@dataclass(frozen=True)
class Surroundings:
    """Device, threads, precision and versions of one measurement."""

    device: str  # cpu or cuda
    device_name: str
    capability: str  # the CPU's vector instructions, as torch sees them
    threads: int
    precision: str
    python: str
    versions: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        where = f"{self.device} ({self.device_name}, {self.capability})"
        libraries = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{where}, {threads}, {self.precision}; {libraries}, Python {self.python}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(**{item.name: value[item.name] for item in fields(cls)})


def surroundings(
    device: str, threads: int, precision: str, libraries: tuple[str, ...] = LIBRARIES
) -> Surroundings:
    """What this process measures on, and with which libraries."""
    import torch

    name = torch.cuda.get_device_name(0) if device == "cuda" else cpu_name()
    return Surroundings(
        device=device,
        device_name=name,
        capability=torch.backends.cpu.get_cpu_capability(),
        threads=threads,
        precision=precision,
        python=platform.python_version(),
        versions=versions_of(libraries),
    )


def versions_of(libraries: tuple[str, ...]) -> dict[str, str]:
    """The versions of those that are installed."""
    found = {}
    for library in libraries:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    """The processor's own name where the system tells it, else its architecture."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
