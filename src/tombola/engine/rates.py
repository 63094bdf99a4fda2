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

#: What decides how long one optimizer step takes.
RATE_KEYS = ("model", "task", "recipe", "numerics")


def key_of(parameters: Mapping[str, Any]) -> str:
    """Trainings of one key take the same time a step, whatever they start from."""
    return digest({key: parameters[key] for key in RATE_KEYS})


def note(root: Path, kind: str, parameters: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
    """Remember the rate of a training that has just ended; an index that cannot be written is no harm."""
    if kind != "train" or not timing.get("optimizer_steps"):
        return
    line = {"key": key_of(parameters), "rate": timing["training_seconds"] / timing["optimizer_steps"]}
    with contextlib.suppress(OSError), open(root / "index" / "rates.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def known(store: Store) -> dict[str, float]:
    """Key → seconds an optimizer step, the latest there is."""
    path = store.root / "index" / "rates.jsonl"
    if not path.is_file():
        _made_again(store, path)
    rates: dict[str, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a torn line says nothing
            entry = json.loads(line)
            rates[entry["key"]] = float(entry["rate"])
    return rates


def _made_again(store: Store, path: Path) -> None:
    rates: dict[str, float] = {}
    for identity in store:
        timing = [entry for entry in store.timing(identity) if entry.get("optimizer_steps")]
        if timing:
            with contextlib.suppress(Exception):
                spec = files.read_json(store.folder(identity) / "spec.json")
                rates[key_of(spec["parameters"])] = (
                    timing[-1]["training_seconds"] / timing[-1]["optimizer_steps"]
                )
    lines = "".join(json.dumps({"key": key, "rate": rate}) + "\n" for key, rate in rates.items())
    files.write_bytes(path, lines.encode())
