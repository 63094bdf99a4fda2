"""Who still reads which outputs: no process, and no other thread of this one, drops what somebody waits for."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from tombola.engine.held import content_of, hold, is_held
from tombola.engine.store import Store
from tombola.engine.work import OutputOf
from tombola.errors import StoreError

#: Names of the announcements that whoever runs here has made itself.
_OWN: ContextVar[frozenset[str]] = ContextVar("own announcements", default=frozenset())


@contextlib.contextmanager
def reading(store: Store, outputs: Iterable[OutputOf]) -> Iterator[None]:
    """Announce the outputs that will be read here, so that nobody else drops them meanwhile."""
    path = store.root / "readers" / uuid.uuid4().hex
    held = hold(path, "".join(f"{run} {output}\n" for run, output in outputs))
    if held is None:
        raise StoreError("a reader's own file is held by another process", where=str(path))
    before = _OWN.set(_OWN.get() | {path.name})
    try:
        yield
    finally:
        _OWN.reset(before)
        held.release()


def read_by_others(store: Store, *, sweep: bool = True) -> set[OutputOf]:
    """The outputs that others who live have announced; what the dead left behind is removed (``sweep``)."""
    found: set[OutputOf] = set()
    for path in _announcements(store):
        if is_held(path):
            with contextlib.suppress(FileNotFoundError):
                found |= _announced(path, path.stat().st_size)
        elif sweep:
            # Taken and given up, not just deleted: somebody may be about to hold it.
            with contextlib.suppress(OSError):
                if (left_behind := hold(path)) is not None:
                    left_behind.release()
    return found


def _announcements(store: Store) -> list[Path]:
    try:
        names = os.listdir(store.root / "readers")
    except FileNotFoundError:
        return []
    return [
        store.root / "readers" / name for name in names if name not in _OWN.get() and not name.startswith(".")
    ]


@lru_cache(maxsize=64)
def _announced(path: Path, size: int) -> frozenset[OutputOf]:
    """What a file of announcements says; it is written once, so that its size tells whether it is known already."""
    lines = content_of(path).split("\n")[:-1]
    return frozenset((run, output) for run, _, output in (line.partition(" ") for line in lines))


def drop(store: Store, output: OutputOf) -> int:
    """Delete a transient output unless another process reads it; its size and hash stay in the manifest.

    Gives the bytes that became free.
    """
    identity, name = output
    if not (store.folder(identity) / name).exists():
        return 0
    run = store.run(identity)
    if run is None or not run.has(name) or not run.outputs[name].transient:
        return 0
    if output in read_by_others(store):
        return 0
    try:
        (run.folder / name).unlink()
    except OSError:
        return 0  # somebody was first, or it cannot be deleted: it may stay
    return run.outputs[name].size
