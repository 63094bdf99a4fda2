"""Who still reads which outputs: no process drops what another one waits for."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator

from tombola.engine.held import content_of, hold, is_held
from tombola.engine.store import Store
from tombola.engine.work import OutputOf
from tombola.errors import StoreError

_PROCESS = uuid.uuid4().hex[:12]


def _own() -> str:
    """Marks this process's announcements; a process on another machine may have the same number."""
    return f"{_PROCESS}-{os.getpid()}-"


@contextlib.contextmanager
def reading(store: Store, outputs: Iterable[OutputOf]) -> Iterator[None]:
    """Announce the outputs this process will read, so that no other drops them meanwhile."""
    path = store.root / "readers" / f"{_own()}{uuid.uuid4().hex[:12]}"
    held = hold(path, "".join(f"{run} {output}\n" for run, output in outputs))
    if held is None:
        raise StoreError("a reader's own file is held by another process", where=str(path))
    try:
        yield
    finally:
        held.release()


def read_by_others(store: Store) -> set[OutputOf]:
    """The outputs that other living processes have announced; what dead ones left behind is removed."""
    found: set[OutputOf] = set()
    for path in (store.root / "readers").iterdir():
        if path.name.startswith((_own(), ".")):
            continue
        if is_held(path):
            for line in content_of(path).splitlines():
                run, _, output = line.partition(" ")
                found.add((run, output))
        else:
            path.unlink(missing_ok=True)
    return found


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
    (run.folder / name).unlink(missing_ok=True)
    return run.outputs[name].size
