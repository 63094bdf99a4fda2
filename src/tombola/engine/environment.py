"""The surroundings of a run: what may change its bits although the identity is the same (DESIGN 5)."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def environment() -> dict[str, Any]:
    """CPU capability, GPU name, and the minor versions of the libraries that do the arithmetic."""
    import platform

    import torch
    import transformers

    return {
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "python": _minor(platform.python_version()),
        "torch": _minor(torch.__version__),
        "transformers": _minor(transformers.__version__),
    }


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])
