"""Token ids on disk, one safetensors file a key, checked before they are believed.

A cache may only ever save time: a file that is missing, damaged or of another shape is encoded again, never
an error.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from tombola.errors import CorruptArtifact


def read(folder: Path, key: str, examples: int) -> dict[str, np.ndarray] | None:
    """The tokens stored under ``key``, or None if there are none that can be trusted."""
    from tombola.files import read_tensors

    try:
        tensors = read_tensors(_path(folder, key))
    except (CorruptArtifact, OSError):
        return None
    tokens = {name: tensor.numpy() for name, tensor in tensors.items()}
    checksum = tokens.pop("checksum", None)
    if checksum is None or not np.array_equal(checksum, _checksum(key, tokens)):
        return None
    return tokens if len(tokens["offsets"]) == examples + 1 else None


def write(folder: Path, key: str, tokens: dict[str, np.ndarray]) -> None:
    """Store ``tokens``; a full or read-only disk costs the cache, not the run."""
    import torch

    from tombola.files import write_tensors

    tensors = {name: torch.from_numpy(array) for name, array in tokens.items()}
    tensors["checksum"] = torch.from_numpy(_checksum(key, tokens))
    try:
        write_tensors(_path(folder, key), tensors)
    except OSError:
        return


def _path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.safetensors"


def _checksum(key: str, tokens: dict[str, np.ndarray]) -> np.ndarray:
    """SHA-256 over the key and every array with its name, type and shape, as 32 bytes."""
    hashed = hashlib.sha256(key.encode())
    for name in sorted(tokens):
        array = np.ascontiguousarray(tokens[name])
        hashed.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(array.data)
    return np.frombuffer(hashed.digest(), np.uint8).copy()
