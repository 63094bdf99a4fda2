"""Named random streams derived from one seed.

Every random choice (task head, data order, dropout, a random mask, a shuffled control) draws from a stream of its
own, so that adding or removing one choice never shifts another. Same seed and names, same stream, on any machine.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends on ``seed`` and every name, in order."""
    text = "\x1f".join(["tombola", str(int(seed)), *(str(name) for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int, device: str = "cpu") -> torch.Generator:
    """A fresh torch generator of the stream ``names`` of ``seed``."""
    import torch

    return torch.Generator(device=device).manual_seed(derive(seed, *names))
