"""Keeping a store in order: its size, what may be deleted, and a limit that nothing may grow past.

Kept results are never deleted. What may go: transient outputs (weights) that no living process reads; they are
recomputed to their recorded hash if they are needed again. Scratch of runs that are finished. Leftovers of the dead.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tombola.engine.held import hold, is_held
from tombola.engine.readers import drop, read_by_others
from tombola.engine.store import Store
from tombola.engine.work import OutputOf
from tombola.errors import StoreError
from tombola.plan.step import Step

#: A half-written file that nobody has touched for so long belongs to nobody.
SECONDS_LEFTOVER = 3600.0


@dataclass(frozen=True)
class Swept:
    """What ``gc`` deleted, or would delete."""

    dropped: tuple[OutputOf, ...]
    folders: tuple[Path, ...]
    leftovers: tuple[Path, ...]
    bytes: int


def gc(
    store: Store,
    *,
    keep: frozenset[OutputOf] | set[OutputOf] = frozenset(),
    checkpoints: bool = False,
    aside: bool = False,
    dry_run: bool = False,
) -> Swept:
    """Delete what nothing waits for. ``checkpoints``: of unfinished runs too, which then begin again; ``aside``: the
    damaged runs that were set aside. Safe while studies run: what living processes hold or announced is left alone."""
    held = read_by_others(store) | set(keep)
    dropped, freed = [], 0
    for identity in store:
        run = store.run(identity)
        if run is None:
            continue
        for name, output in run.outputs.items():
            if output.transient and run.has(name) and (identity, name) not in held:
                if not dry_run and drop(store, (identity, name)) == 0:
                    continue
                dropped.append((identity, name))
                freed += output.size
    folders = []
    for scratch in sorted((store.root / "running").iterdir()):
        identity = scratch.name
        if not (checkpoints or store.folder(identity).exists()):
            continue
        lease = None if dry_run else store.lease(identity)
        if lease is None and (not dry_run or is_held(store.root / "leases" / identity)):
            continue
        folders.append(scratch)
        freed += _size(scratch)
        if lease is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            lease.release()
    if aside and (store.root / "aside").is_dir():
        for folder in sorted((store.root / "aside").iterdir()):
            folders.append(folder)
            freed += _size(folder)
            if not dry_run:
                shutil.rmtree(folder, ignore_errors=True)
    leftovers = _partial_files(store.root)
    for path in leftovers:
        if not dry_run:
            path.unlink(missing_ok=True)
    for path in (store.root / "leases").iterdir():
        # Taken and given up, not just deleted: a living process may be taking it at this moment.
        lease = None if dry_run else hold(path)
        if lease is not None:
            lease.release()
            leftovers.append(path)
    return Swept(tuple(dropped), tuple(folders), tuple(leftovers), freed)


def used_bytes(store: Store) -> int:
    """What the store takes on the disk."""
    return _size(store.root)


@dataclass
class Room:
    """Holds a store to a limit while a graph runs. ``still_read`` are the outputs the graph has yet to read."""

    store: Store
    limit: int | None
    still_read: Callable[[], set[OutputOf]]
    used: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.limit is not None:
            self.used = used_bytes(self.store)

    def make(self, step: Step) -> None:
        """Before a step begins: what can go goes; if that is not enough, nothing more is begun."""
        if self.limit is None or self.used <= self.limit:
            return
        gc(self.store, keep=self.still_read())
        self.used = used_bytes(self.store)
        if self.used > self.limit:
            raise StoreError(
                f"the store takes {self.used / 1e9:.2f} GB, more than the {self.limit / 1e9:.2f} GB it may; "
                f"'{step.label or step.kind}' was not begun",
                where=str(self.store.root),
                todo="raise --max-store-gb, or delete runs that you no longer want; finished work is kept",
            )

    def took(self, identity: str) -> None:
        if self.limit is not None:
            self.used += _size(self.store.folder(identity))

    def freed(self, size: int) -> None:
        self.used -= size


def _partial_files(root: Path) -> list[Path]:
    """Files of writes that never ended."""
    old = time.time() - SECONDS_LEFTOVER
    return [path for path in root.glob("*/*/.*.partial") if path.stat().st_mtime < old]


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue  # somebody else's, gone meanwhile
    return total
