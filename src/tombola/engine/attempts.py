"""``attempts.jsonl``: append-only, one line whenever a step begins or ends. It tells how often each was begun."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from tombola import files
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
    files.append_line(root / "attempts.jsonl", json.dumps(entry, sort_keys=True))


def read(root: Path) -> list[dict[str, Any]]:
    """Every line that is whole; one torn by a full disk says nothing."""
    return files.json_lines(root / "attempts.jsonl")
