"""Faults at every operation: each write, flush, rename, deletion under one folder is counted, and one of them strikes.

A process that is to be killed is a forked child that ends at once (``os._exit``): no ``finally`` runs, as with
SIGKILL. What it changed on the disk up to then is there, and nothing after. An error of the disk is raised where the
operation would have been, once or from then on.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import gc
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tombola.errors import TombolaError

#: How a run ended: at its end; by a clear error; killed; or it was to be killed and came to some other end.
ENDED, CLEAR, KILLED, NOT_KILLED = 0, 4, 9, 70
#: What a disk without room still lets one do.
NEEDS_NO_ROOM = ("unlink", "rmdir", "fsync", "rename", "replace")


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system in memory, where there is one: hundreds of runs are quick there."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tombola-tests-") as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Operation:
    """``target`` is where a rename goes."""

    kind: str
    path: Path
    target: Path | None = None


@dataclass(frozen=True)
class Fault:
    """What strikes at operation ``at``: ``kill`` before it, ``after`` it, ``torn`` (killed after half of a write), or
    an error by its name: ``EIO`` once, ``ENOSPC`` and ``EROFS`` from then on."""

    at: int
    what: str = "kill"


@dataclass
class Disk:
    """Watches what this process changes under ``root``; ``fault`` strikes when it is due. No flush is waited for."""

    root: Path
    fault: Fault | None = None
    seen: list[Operation] = field(default_factory=list)

    def operate(
        self,
        kind: str,
        path: Path,
        act: Callable[[], Any],
        *,
        target: Path | None = None,
        half: Callable[[], Any] | None = None,
    ) -> Any:
        if self.root not in path.parents and self.root not in (target.parents if target else ()):
            return act()
        number = len(self.seen)
        self.seen.append(Operation(kind, path, target))
        fault = self.fault
        if fault is None or number < fault.at:
            return act()
        if fault.what in ("kill", "after", "torn"):
            if fault.what == "after":
                act()
            if fault.what == "torn" and half is not None:
                half()
            os._exit(KILLED)
        code = getattr(errno, fault.what)
        if fault.what == "EIO" and number > fault.at:
            return act()
        if fault.what == "ENOSPC" and kind in NEEDS_NO_ROOM:
            return act()
        if fault.what == "ENOSPC" and half is not None:
            half()
        raise OSError(code, os.strerror(code), str(path))

    @contextlib.contextmanager
    def watched(self) -> Iterator[Disk]:
        """Everything that changes files goes by ``operate`` while this lasts."""
        former = {name: getattr(os, name) for name in dir(_Watched) if not name.startswith("_")}
        former_open = io.open
        watched = _Watched(self, former)

        def opened(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return former_open(file, mode, *arguments, **more)
            path = Path(os.path.abspath(file))
            made = self.operate("create", path, lambda: former_open(file, mode, *arguments, **more))
            return _Written(self, path, made)

        for name in former:
            setattr(os, name, getattr(watched, name))
        io.open = builtins.open = opened  # type: ignore[assignment]
        try:
            yield self
        finally:
            for name, function in former.items():
                setattr(os, name, function)
            io.open = builtins.open = former_open


class _Watched:
    """The functions of ``os`` that change files, each with its own name and arguments."""

    def __init__(self, disk: Disk, former: dict[str, Callable[..., Any]]) -> None:
        self._disk = disk
        self._former = former

    def open(self, path: Any, flags: int, *arguments: Any, dir_fd: int | None = None, **more: Any) -> Any:
        def act() -> Any:
            return self._former["open"](path, flags, *arguments, dir_fd=dir_fd, **more)

        changes = flags & (os.O_CREAT | os.O_TRUNC)
        return self._disk.operate("create", _place(path, dir_fd), act) if changes else act()

    def write(self, descriptor: int, content: bytes) -> Any:
        former = self._former["write"]
        return self._disk.operate(
            "write",
            _opened(descriptor),
            lambda: former(descriptor, content),
            half=lambda: former(descriptor, bytes(content)[: len(content) // 2]),
        )

    def pwrite(self, descriptor: int, content: bytes, offset: int) -> Any:
        former = self._former["pwrite"]
        return self._disk.operate(
            "write",
            _opened(descriptor),
            lambda: former(descriptor, content, offset),
            half=lambda: former(descriptor, bytes(content)[: len(content) // 2], offset),
        )

    def ftruncate(self, descriptor: int, length: int) -> Any:
        return self._disk.operate(
            "truncate", _opened(descriptor), lambda: self._former["ftruncate"](descriptor, length)
        )

    def fsync(self, descriptor: int) -> Any:
        # A kill loses nothing of what was written; only the order matters here, and the disk is spared.
        return self._disk.operate("fsync", _opened(descriptor), lambda: None)

    def replace(self, source: Any, target: Any, **more: Any) -> Any:
        return self._moved("replace", source, target, more)

    def rename(self, source: Any, target: Any, **more: Any) -> Any:
        return self._moved("rename", source, target, more)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> Any:
        return self._gone("unlink", path, dir_fd)

    def remove(self, path: Any, *, dir_fd: int | None = None) -> Any:
        return self._gone("unlink", path, dir_fd)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> Any:
        return self._gone("rmdir", path, dir_fd)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        place = _place(path, dir_fd)

        def act() -> Any:
            return self._former["mkdir"](path, mode, dir_fd=dir_fd)

        return act() if place.exists() else self._disk.operate("mkdir", place, act)

    def _moved(self, kind: str, source: Any, target: Any, more: dict[str, Any]) -> Any:
        return self._disk.operate(
            kind,
            _place(source, more.get("src_dir_fd")),
            lambda: self._former[kind](source, target, **more),
            target=_place(target, more.get("dst_dir_fd")),
        )

    def _gone(self, kind: str, path: Any, dir_fd: int | None) -> Any:
        return self._disk.operate(kind, _place(path, dir_fd), lambda: self._former[kind](path, dir_fd=dir_fd))


class _Written:
    """An open file whose every write reaches the disk at once and is counted."""

    def __init__(self, disk: Disk, path: Path, file: Any) -> None:
        self._disk, self._path, self._file = disk, path, file

    def write(self, content: Any) -> Any:
        return self._disk.operate(
            "write",
            self._path,
            lambda: self._through(content),
            half=lambda: self._through(content[: len(content) // 2]),
        )

    def _through(self, content: Any) -> int:
        written = self._file.write(content)
        self._file.flush()
        return written

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _place(path: Any, dir_fd: int | None) -> Path:
    return Path(os.path.abspath(path)) if dir_fd is None else _opened(dir_fd) / os.fspath(path)


def _opened(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def watch(root: Path, scenario: Callable[[], None]) -> list[Operation]:
    """What an undisturbed run of ``scenario`` does under ``root``, in order."""
    with Disk(root).watched() as disk:
        scenario()
    return disk.seen


def strike(root: Path, scenario: Callable[[], object], fault: Fault) -> int:
    """Run ``scenario`` into that fault; how it ended. A kill strikes a forked process, an error this one."""
    if fault.what not in ("kill", "after", "torn"):
        try:
            with Disk(root, fault).watched():
                scenario()
        except (TombolaError, OSError):
            return CLEAR
        return ENDED
    child = os.fork()
    if child == 0:
        gc.disable()  # walking through all that was inherited would copy it
        try:
            with Disk(root, fault).watched():
                scenario()
        finally:
            os._exit(NOT_KILLED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def faults_for(operations: list[Operation], kinds: tuple[str, ...]) -> list[Fault]:
    """Every fault of these kinds at every operation; only a write can be torn."""
    return [
        Fault(number, kind)
        for number, operation in enumerate(operations)
        for kind in kinds
        if kind != "torn" or operation.kind == "write"
    ]
