"""What a Ray worker does with one step. It imports no Ray: JSON text comes in, JSON text goes out.

How far the step is stands in a small file beside its checkpoints, for whoever shares the store to see.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tombola.engine.performing import failure_json, failure_of, perform
from tombola.engine.store import Store
from tombola.engine.work import Work
from tombola.errors import StoreError

#: At least so many seconds between two notes of progress.
SECONDS_BETWEEN_NOTES = 0.5
PROGRESS = "progress.json"
TIMES_TO_LOOK = 10


def do_step(order: str) -> str:
    """One step in a Ray worker, which calls this in its main thread. Both ways JSON text."""
    given = json.loads(order)
    stopping = threading.Event()
    # `ray.cancel` interrupts like Ctrl-C, anywhere. A training stops between two steps instead, with a checkpoint.
    former = signal.signal(signal.SIGINT, lambda *_: stopping.set())
    try:
        with warnings.catch_warnings(record=True) as heard:
            answer = _done(given, stopping)
        return json.dumps({**answer, "warnings": [str(warning.message) for warning in heard]})
    finally:
        signal.signal(signal.SIGINT, former)


def _done(given: Mapping[str, Any], stopping: threading.Event) -> dict[str, Any]:
    try:
        with suppress(OSError):
            os.chdir(given["folder"])
        for name in given["preload"]:
            import_module(name)
        store = _shared(given["root"], given["mark"])
    except Exception:
        return {"unable": f"on {socket.gethostname()}: {traceback.format_exc()[-4000:]}"}
    work = Work.from_json(given["work"])
    note = store.scratch(work.identity) / PROGRESS
    begun = False
    noted_at = 0.0

    def began() -> None:
        nonlocal begun
        begun = True
        note.parent.mkdir(parents=True, exist_ok=True)
        moved(0, 0)

    def moved(done: int, total: int) -> None:
        nonlocal noted_at
        if stopping.is_set():
            raise KeyboardInterrupt  # the loop writes a checkpoint on its way out
        now = time.monotonic()
        if now - noted_at >= SECONDS_BETWEEN_NOTES or done == total:
            noted_at = now
            with suppress(OSError):  # for the eyes only: no step fails for it
                note.write_text(json.dumps({"token": given["token"], "done": done, "total": total}))

    try:
        seconds = perform(work, store, began=began, moved=moved)
    except KeyboardInterrupt:
        return {"stopped": True}
    except Exception as error:
        return {"failed": failure_json(failure_of(error)), "began": begun}
    return {"busy": True} if seconds is None else {"finished": seconds, "began": begun}


@lru_cache(maxsize=4)
def _shared(root: str, mark: str) -> Store:
    """The store, if its folder here is the very one that the driver has; opened once a worker, so that files that it
    has verified once are not hashed again for the next step."""
    path = Path(root) / "readers" / mark
    for _ in range(TIMES_TO_LOOK):
        if path.exists():
            return Store(root)
        time.sleep(SECONDS_BETWEEN_NOTES)  # a network file system may show a new file a little later
    raise StoreError(
        "this node's folder is not the store that the command works on",
        where=root,
        todo="share it with all nodes",
    )
