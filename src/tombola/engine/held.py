"""Files that a living process holds: a dead holder's file is free at once here, and after a while elsewhere.

On one machine the operating system tells: the holder keeps a lock (flock) that falls with it, whatever killed it.
Between machines on a shared file system locks may not be seen, so a holder also touches its file every few seconds;
one that has not been touched for a minute has lost its holder. Where neither can be seen, two processes may do the
same work: the store publishes by one rename, so that is waste and never damage.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

#: Seconds between two signs of life, and after how many of silence a holder on another machine counts as dead.
HEARTBEAT = 10.0
SILENCE = 60.0


class Held:
    """A file this process holds until ``release``, with a note of who that is."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        _HEART.add(self)

    def beat(self) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)

    def release(self) -> None:
        """Give the file up; removed first, so that nobody takes a file that is about to go."""
        _HEART.discard(self)
        with contextlib.suppress(OSError):  # one that cannot be removed is free all the same: the lock falls
            self.path.unlink()
        os.close(self._descriptor)


def hold(path: Path, content: str = "") -> Held | None:
    """Hold ``path``, or None if a living process does. ``content`` stands in it for others to read."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)  # somebody deleted the folder meanwhile
            continue
        try:
            if not _locked(descriptor, fcntl.LOCK_EX):
                # Whoever only asks shares its lock with us, and is gone in a moment; a holder shares with nobody.
                asked_about = _locked(descriptor, fcntl.LOCK_SH)
                os.close(descriptor)
                if asked_about:
                    time.sleep(0.001)
                    continue
                return None
            if not _is_still(path, descriptor):
                os.close(descriptor)  # its former holder removed it between our opening and our locking
                continue
            if _held_elsewhere(descriptor):
                os.close(descriptor)
                return None
            note = (json.dumps({"host": this_host(), "pid": os.getpid()}) + "\n" + content).encode()
            os.ftruncate(descriptor, 0)
            written = 0
            while written < len(note):  # a full disk takes a part, and says why only when asked again
                written += os.pwrite(descriptor, note[written:], written)
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(descriptor)
            raise
        return Held(path, descriptor)


def is_held(path: Path) -> bool:
    """Whether a living process holds ``path``; asking never disturbs it, nor whoever is about to hold it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH) or _held_elsewhere(descriptor)
    finally:
        os.close(descriptor)


def content_of(path: Path) -> str:
    """What the holder wrote behind its own note."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[2]
    return ""


@cache
def this_host() -> str:
    """This machine in this life of it: after a restart no process of before is alive."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.is_file() else ''}".strip()


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: the note and the heartbeat decide alone
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _held_elsewhere(descriptor: int) -> bool:
    """The note names another machine, and its heart still beats. This machine's own holder would have the lock."""
    first = os.pread(descriptor, 4096, 0).decode(errors="replace").partition("\n")[0]
    try:
        note: Any = json.loads(first)
        host = note["host"]
    except (ValueError, KeyError, TypeError):
        return False  # empty or torn: its holder died while it wrote
    if host == this_host():
        return False
    before = os.fstat(descriptor).st_mtime
    return _now_of(descriptor) - before < SILENCE


def _now_of(descriptor: int) -> float:
    """The time by the clock of the file system: those of two machines may differ."""
    folder = (
        Path(os.readlink(f"/proc/self/fd/{descriptor}")).parent if os.path.isdir("/proc/self/fd") else None
    )
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-") as probe:
            os.utime(probe.fileno())
            return os.fstat(probe.fileno()).st_mtime
    except OSError:
        return time.time()  # nothing can be written there: our own clock is the best there is


class _Heart:
    """One thread a process that touches everything it holds."""

    def __init__(self) -> None:
        self._held: set[Held] = set()
        self._guard = threading.Lock()
        self._beating_in = 0

    def add(self, held: Held) -> None:
        with self._guard:
            self._held.add(held)
            if self._beating_in != os.getpid():  # threads do not survive a fork
                self._beating_in = os.getpid()
                threading.Thread(target=self._beat, name="tombola heartbeat", daemon=True).start()

    def discard(self, held: Held) -> None:
        with self._guard:
            self._held.discard(held)

    def _beat(self) -> None:
        pause = threading.Event()
        while not pause.wait(HEARTBEAT):
            with self._guard:
                for held in self._held:
                    held.beat()


_HEART = _Heart()
