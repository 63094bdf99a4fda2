"""Mirrors: trackers that are told what the store knows.

The store is the truth. Each run is told once; what a tracker has missed (it was down, or too slow) is told later by
``mirror_all``. ``mirrored.py`` tells while a graph runs.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tombola import files
from tombola.engine import attempts
from tombola.engine.held import hold
from tombola.engine.store import Store
from tombola.errors import UsageError, nearest

#: After so many failures in a row a tracker counts as down.
MOST_FAILURES = 3
LATER = "nothing is lost: the store has it, and the tracker can be told later"


@dataclass(frozen=True)
class MirroredRun:
    """A finished run as a tracker is told of it: nested names are joined by dots, ``metrics`` are the last ones,
    ``rows`` are the lines of metrics.jsonl."""

    identity: str
    kind: str
    label: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, float]
    rows: tuple[Mapping[str, float], ...]
    seconds: float


@dataclass(frozen=True)
class Counts:
    """How many runs a tracker was told of, could not be told of, or was too slow for."""

    mirrored: int = 0
    failed: int = 0
    dropped: int = 0


class Mirror(Protocol):
    """A tracker. ``name`` says which one and where in it, in letters that a file's name may have."""

    @property
    def name(self) -> str: ...
    def mirror(self, run: MirroredRun) -> None:
        """Tell of one run, in whole or with an exception."""
        ...

    def close(self) -> None: ...


def _mlflow(place: str, experiment: str) -> Mirror:
    from tombola.engine.mlflow_mirror import MlflowMirror

    return MlflowMirror(place, experiment)


#: Name in ``--mirror NAME:PLACE`` -> what makes the mirror of (place, experiment).
MIRRORS: dict[str, Callable[[str, str], Mirror]] = {"mlflow": _mlflow}


def mirror_of(tracker: str, experiment: str) -> Mirror:
    """The mirror that ``mlflow:URI`` names; runs go to the ``experiment``, a study's name for instance."""
    name, _, place = tracker.partition(":")
    if name not in MIRRORS:
        raise UsageError(f"there is no tracker '{name}'", where="--mirror", todo=nearest(name, list(MIRRORS)))
    if not place:
        raise UsageError(f"where is the tracker '{name}'?", where="--mirror", todo=f"give {name}:URI")
    return MIRRORS[name](place, experiment)


def read_run(store: Store, identity: str, label: str = "") -> MirroredRun | None:
    """A run as the store has it; None if it is not there, or measured nothing (a mask, say)."""
    run = store.run(identity)
    if run is None or not {"metrics.json", "metrics.jsonl"} & run.outputs.keys():
        return None
    spec = files.read_json(run.folder / "spec.json")
    inputs = {port: f"{ref['run'][:12]}/{ref['output']}" for port, ref in spec["inputs"].items()}
    metrics = store.read_json((identity, "metrics.json")) if run.has("metrics.json") else {}
    rows = files.json_lines(store.path((identity, "metrics.jsonl"))) if run.has("metrics.jsonl") else []
    timing = store.timing(identity)
    return MirroredRun(
        identity=identity,
        kind=spec["step"],
        label=label or spec["step"],
        parameters=dict(_flat({**spec["parameters"], "inputs": inputs})),
        metrics={name: value for name, value in _flat(metrics) if _is_number(value)},
        rows=tuple({name: value for name, value in _flat(row) if _is_number(value)} for row in rows),
        seconds=float(timing[-1].get("seconds", 0.0)) if timing else 0.0,
    )


def mirror_all(
    store: Store,
    mirror: Mirror,
    identities: Iterable[str] | None = None,
    *,
    say: Callable[[str], None] = warnings.warn,
) -> Counts:
    """Tell the tracker of every run (of ``identities``) that it lacks. One that seems down is not tried for long."""
    labels = {entry["run"]: entry["label"] for entry in attempts.read(store.root) if entry.get("label")}
    notes = Notes(store.root, mirror.name)
    mirrored = failed = in_a_row = 0
    for identity in store if identities is None else sorted(set(identities)):
        try:
            mirrored += mirror_once(store, mirror, notes, identity, labels.get(identity, ""))
            in_a_row = 0
        except Exception as error:
            failed, in_a_row = failed + 1, in_a_row + 1
            if failed == 1:
                say(what_happened(mirror, error))
            if in_a_row == MOST_FAILURES:
                break
    return Counts(mirrored, failed)


class Notes:
    """Which runs a tracker was told of: ``index/mirrored-NAME.jsonl``, appended to by every process that tells."""

    def __init__(self, root: Path, name: str) -> None:
        self._path = root / "index" / f"mirrored-{name}.jsonl"
        self._known: set[str] = set()
        self._read = 0

    def has(self, identity: str) -> bool:
        size = self._path.stat().st_size if self._path.exists() else 0
        if size < self._read:  # deleted meanwhile
            self._known, self._read = set(), 0
        if size > self._read:
            self._known = {str(entry.get("run")) for entry in files.json_lines(self._path)}
            self._read = size
        return identity in self._known

    def add(self, identity: str) -> None:
        files.append_line(self._path, json.dumps({"run": identity}))


def mirror_once(store: Store, mirror: Mirror, notes: Notes, identity: str, label: str) -> bool:
    """Whether the tracker was told now; not if it knew, nor if another process is telling it."""
    run = None if notes.has(identity) else read_run(store, identity, label)
    held = None if run is None else hold(store.root / "readers" / f"mirror-{mirror.name}-{identity}")
    if run is None or held is None:
        return False
    try:
        if notes.has(identity):
            return False
        mirror.mirror(run)
        notes.add(identity)
        return True
    finally:
        held.release()


def what_happened(mirror: Mirror, error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"the tracker {mirror.name} could not be told ({type(error).__name__}: {first}); {LATER}"


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(item) if isinstance(item, list) else item


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
