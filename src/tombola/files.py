"""Files that are never half there: atomic writes, and reads of strangers' files that check before they trust.

Anything written goes to a sibling first, is flushed to the disk, then renamed; a reader sees the old file or the new
one. No pickle anywhere: JSON and safetensors only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.errors import CorruptArtifact

if TYPE_CHECKING:
    import torch

#: A safetensors header is names and shapes; one larger than this is an attack or an accident.
LARGEST_HEADER = 16 * 1024 * 1024
LARGEST_JSON = 64 * 1024 * 1024


def fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` so that ``path`` is either absent, the old file, or wholly the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sibling = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.partial")
    try:
        with open(sibling, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(sibling, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            sibling.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Append one line in one write: lines of several processes never mix, and one that was torn spoils no other."""
    content = line.encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size > 0 and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        while content:  # a full disk takes a part, and says why only when asked again
            content = content[os.write(descriptor, content) :]
    finally:
        os.close(descriptor)


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects in a file, one a line; a line that is damaged says nothing, and neither does an absent file."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    entries = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                entries.append(entry)
    return entries


def write_json(path: Path, value: Any) -> None:
    """Readable, stable JSON: two values that are equal are equal byte for byte."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_bytes(path, (text + "\n").encode())


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file atomically; equal tensors give equal bytes."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(tensors.items())}
    write_bytes(path, save(plain, metadata=dict(metadata) if metadata else None))


def read_json(path: Path) -> Any:
    """Read JSON somebody else may have written; damage is a CorruptArtifact, not a traceback."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise CorruptArtifact(f"{path.name} is larger than {LARGEST_JSON} bytes", where=str(path))
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise CorruptArtifact(f"{path.name} is missing", where=str(path)) from None
    except IsADirectoryError:
        raise CorruptArtifact(f"{path.name} is a folder", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise CorruptArtifact(f"{path.name} is not valid JSON ({error})", where=str(path)) from None


def read_tensors(path: Path, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Read a safetensors file after its header has been checked for size and for lying about its length."""
    check_tensor_file(path)
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path, device=device)
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise CorruptArtifact(
            f"{path.name} is not a readable safetensors file ({error})", where=str(path)
        ) from None


def check_tensor_file(path: Path) -> None:
    """Refuse a file whose header is absurd before any reader allocates memory for it."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            prefix = file.read(8)
    except FileNotFoundError:
        raise CorruptArtifact(f"{path.name} is missing", where=str(path)) from None
    if len(prefix) < 8:
        raise CorruptArtifact(f"{path.name} is too short to be a safetensors file", where=str(path))
    (header,) = struct.unpack("<Q", prefix)
    if header > LARGEST_HEADER or header + 8 > size:
        raise CorruptArtifact(
            f"{path.name} announces a header of {header} bytes in a file of {size}: damaged, or not safetensors",
            where=str(path),
        )


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
