"""``attempts.jsonl``: append-only, one line whenever a step begins or ends. It tells how often each was begun."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from tombola.engine.held import this_host


def note(root: Path, event: str, identity: str, **more: Any) -> None:
    """Append one line in one write: lines of several processes never mix."""
    entry = {
        "event": event,
        "run": identity,
        "time": round(time.time(), 3),
        "host": this_host().split(" ")[0],
        "pid": os.getpid(),
        **more,
    }
    line = (json.dumps(entry, sort_keys=True, ensure_ascii=False) + "\n").encode()
    descriptor = os.open(root / "attempts.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, b"\n" + line if torn else line)
    finally:
        os.close(descriptor)


def read(root: Path) -> list[dict[str, Any]]:
    """Every line that is whole; one torn by a full disk says nothing."""
    path = root / "attempts.jsonl"
    entries = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                entries.append(json.loads(line))
    return entries
