"""A worker process: steps come in as JSON lines on stdin, what happens goes out as JSON lines on stdout.

    python -m tombola.engine.worker STORE [MODULE …]

It holds nothing that could be lost: inputs and results are in the store. It ends at ``{"stop": true}`` or when its
parent is gone (the end of stdin); a training under way writes a checkpoint first. The modules are imported before
the first step: a lab registers steps of its own there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from queue import SimpleQueue
from typing import Any, TextIO

#: At least so many seconds between two signs of progress of one step.
SECONDS_BETWEEN_SIGNS = 0.2

Say = Callable[[Mapping[str, Any]], None]


def main(root: str, preload: list[str]) -> None:
    # The parent decides what Ctrl-C means; a worker is told by a message.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say = _voice()
    warnings.showwarning = lambda message, *_args, **_more: say({"warning": str(message)})
    orders: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
    stopping = threading.Event()
    threading.Thread(target=_listen, args=(sys.stdin, orders, stopping), daemon=True).start()
    for name in preload:
        import_module(name)
    from tombola.engine.store import Store

    store = Store(root)
    say({"ready": os.getpid()})
    while (order := orders.get()) is not None and not stopping.is_set():
        _perform(order, store, say, stopping)


def _perform(order: Mapping[str, Any], store: Any, say: Say, stopping: threading.Event) -> None:
    from tombola.engine.performing import failure_json, failure_of, perform
    from tombola.engine.work import Work

    work = Work.from_json(order)
    said_at = 0.0

    def moved(done: int, total: int) -> None:
        nonlocal said_at
        if stopping.is_set():
            raise KeyboardInterrupt  # the loop writes a checkpoint on its way out
        now = time.monotonic()
        if now - said_at >= SECONDS_BETWEEN_SIGNS or done == total:
            said_at = now
            say({"moved": work.identity, "done": done, "total": total})

    try:
        seconds = perform(work, store, began=lambda: say({"began": work.identity}), moved=moved)
    except KeyboardInterrupt:
        return
    except Exception as error:
        say({"failed": work.identity, "failure": failure_json(failure_of(error))})
    else:
        say({"busy": work.identity} if seconds is None else {"finished": work.identity, "seconds": seconds})


def _listen(source: TextIO, orders: SimpleQueue[dict[str, Any] | None], stopping: threading.Event) -> None:
    """Orders as they come; the end of the parent is an order to stop."""
    with suppress(ValueError):  # an order torn by its writer's death is the last there is
        for line in source:
            order = json.loads(line)
            if "stop" in order:
                break
            orders.put(order)
    stopping.set()
    orders.put(None)


def _voice() -> Say:
    """Stdout for messages alone: whatever a library prints goes to stderr."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    guard = threading.Lock()

    def say(message: Mapping[str, Any]) -> None:
        line = (json.dumps(dict(message)) + "\n").encode()
        with guard:
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            except BrokenPipeError:
                pass  # the parent is gone; the listener ends this process

    return say


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
