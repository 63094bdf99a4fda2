"""Keeping a store in order: its size, what may be deleted, and a limit that nothing may grow past.

Kept results are never deleted. What may go: transient outputs (weights) that no living process reads; they are
recomputed to their recorded hash if they are needed again. Scratch of runs that are finished. Leftovers of the dead.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
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
    held = read_by_others(store, sweep=not dry_run) | set(keep)
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
    leftovers = _partial_files(store.root)
    for path in leftovers:
        if not dry_run:
            path.unlink(missing_ok=True)
    for path in _listed(store.root / "leases"):
        with _unheld(path, dry_run) as free:
            if free:
                leftovers.append(path)
    folders = []
    for scratch in _listed(store.root / "running"):
        if not (checkpoints or _is_over(store, scratch.name)):
            continue
        with _unheld(store.root / "leases" / scratch.name, dry_run) as free:
            if free:
                folders.append(scratch)
                freed += _size(scratch)
                if not dry_run:
                    store.clear_scratch(scratch.name)
    half_gone = [path for path in (store.root / "running").glob(".*.partial") if path.is_dir()]
    for folder in [*half_gone, *(_listed(store.root / "aside") if aside else ())]:
        folders.append(folder)
        freed += _size(folder)
        if not dry_run:
            shutil.rmtree(folder, ignore_errors=True)
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


def _is_over(store: Store, identity: str) -> bool:
    """Whether nobody will go on with this run: it is finished, or another one stands in for it."""
    return store.folder(identity).exists() or (store.root / "substitutes" / f"{identity}.json").exists()


@contextlib.contextmanager
def _unheld(path: Path, dry_run: bool) -> Iterator[bool]:
    """Whether nobody holds ``path``, and so it stays meanwhile: a living process may be taking it at this moment."""
    held = None if dry_run else hold(path)
    try:
        yield not is_held(path) if dry_run else held is not None
    finally:
        if held is not None:
            held.release()


def _listed(folder: Path) -> list[Path]:
    """What lies in a folder, if there is one; names with a dot in front belong to whoever writes them."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []


def _partial_files(root: Path) -> list[Path]:
    """Files of writes that never ended."""
    old = time.time() - SECONDS_LEFTOVER
    found = []
    for pattern in ("*/.*.partial", "*/*/.*.partial", "*/.clock-*"):
        for path in root.glob(pattern):
            with contextlib.suppress(FileNotFoundError):  # its writer has come to an end after all
                if path.is_file() and path.stat().st_mtime < old:
                    found.append(path)
    return found


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue  # somebody else's, gone meanwhile
    return total
