"""How long an optimizer step takes: an index of the runs' own timings, kept so that no plan has to read every run.

``index/rates.jsonl`` may be deleted at any time: it is made again from the runs' ``timing.jsonl``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tombola import files
from tombola.canonical import digest
from tombola.engine.store import Store

INDEX = "rates.jsonl"
#: What decides how long one optimizer step takes.
RATE_KEYS = ("model", "task", "recipe", "numerics")


def key_of(parameters: Mapping[str, Any]) -> str:
    """Trainings of one key take the same time a step, whatever they start from."""
    return digest({key: parameters[key] for key in RATE_KEYS})


def note(root: Path, kind: str, parameters: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
    """Remember the rate of a training that has just ended; an index that cannot be written is no harm."""
    path = root / "index" / INDEX
    # Where there is none, the run's own timing is found when it is made: one line must not look like all of them.
    if kind != "train" or not timing.get("optimizer_steps") or not path.exists():
        return
    line = {"key": key_of(parameters), "rate": timing["training_seconds"] / timing["optimizer_steps"]}
    with contextlib.suppress(OSError):
        files.append_line(path, json.dumps(line))


def known(store: Store) -> dict[str, float]:
    """Key → seconds an optimizer step, the latest there is."""
    rates = _read(store.root / "index" / INDEX)
    if rates is None:
        rates = _gathered(store)
        lines = "".join(json.dumps({"key": key, "rate": rate}) + "\n" for key, rate in rates.items())
        with contextlib.suppress(OSError):
            files.write_bytes(store.root / "index" / INDEX, lines.encode())
    return rates


def _read(path: Path) -> dict[str, float] | None:
    """What the index says; None if it is not there, not whole, or empty."""
    rates: dict[str, float] = {}
    try:
        for line in path.read_bytes().splitlines():
            entry = json.loads(line)
            rates[entry["key"]] = float(entry["rate"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return rates or None


def _gathered(store: Store) -> dict[str, float]:
    rates: dict[str, float] = {}
    for identity in store:
        timing = [entry for entry in store.timing(identity) if entry.get("optimizer_steps")]
        if timing:
            with contextlib.suppress(Exception):
                spec = files.read_json(store.folder(identity) / "spec.json")
                rates[key_of(spec["parameters"])] = (
                    timing[-1]["training_seconds"] / timing[-1]["optimizer_steps"]
                )
    return rates
