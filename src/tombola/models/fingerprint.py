"""The fingerprint of a backbone's weights: what θ0 *is*, wherever it came from (DESIGN 5)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch

from tombola.canonical import digest


def fingerprint(state: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 (hex) over sorted names, dtypes, shapes and bytes. Names of one memory (tied) count once."""
    lines: list[list[object]] = []
    seen: set[tuple[object, ...]] = set()
    for name, tensor in sorted(state.items()):
        weight = tensor.detach()
        memory = (weight.device, weight.data_ptr(), weight.dtype, tuple(weight.shape), weight.stride())
        if weight.numel() and memory in seen:
            continue
        seen.add(memory)
        lines.append([name, str(weight.dtype).removeprefix("torch."), list(weight.shape), _hash(weight)])
    return digest(lines)


def _hash(weight: torch.Tensor) -> str:
    flat = weight.cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().data).hexdigest()
