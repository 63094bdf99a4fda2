"""A connection to Ray that leaves the process as it found it: quiet, stdout clean, signals as before."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib import import_module
from typing import Any, TextIO

from tombola.errors import UsageError

#: Nothing of ours lies in Ray's object store; Ray refuses to do with less.
OBJECT_STORE_BYTES = 80 * 2**20
#: Ray itself tries a dead address for many minutes.
SECONDS_TO_REACH = 10.0


def imported_ray() -> Any:
    """The package, or an error that says how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("ray")
    except ImportError:
        raise UsageError(
            "Ray is not installed", where="--engine ray", todo='pip install "tombola[ray]"'
        ) from None


def connection(ray: Any, address: str | None, *, cpus: int, gpus: bool) -> ExitStack:
    """Start Ray on this machine, or join the cluster at ``address``; closing what comes back ends that."""
    if address is None:
        where: dict[str, Any] = {
            # Ray's own default would join whatever cluster was started on this machine last.
            "address": "local",
            "num_cpus": cpus,
            "num_gpus": None if gpus else 0,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
        }
    else:
        where = {"address": address}
    with ExitStack() as stack:
        stack.enter_context(_termination_as_before())
        stack.enter_context(_clean_stdout())
        stack.callback(_shut_down, ray)
        try:
            if address is not None:
                _knock(address)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(**where, log_to_driver=False, logging_level="error")
        except Exception as error:
            raise UsageError(
                f"Ray could not be {'started' if address is None else 'reached'} "
                f"({type(error).__name__}: {error})",
                where=address or "this machine",
                todo="is it running there (ray status), with the same versions of Ray and Python as here?",
            ) from error
        return stack.pop_all()


def _shut_down(ray: Any) -> None:
    with redirect_stdout(sys.stderr):
        ray.shutdown()


def _knock(address: str) -> None:
    """Whether anybody listens at ``host:port`` or ``ray://host:port``; other addresses are for Ray to read."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_REACH).close()


@contextmanager
def _termination_as_before() -> Iterator[None]:
    """Ray makes SIGTERM an orderly exit, which suits us while it runs and nobody afterwards."""
    former = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, former)


@contextmanager
def _clean_stdout() -> Iterator[None]:
    """Ray's thread prints notices of dying nodes to stdout, which is for results: they go to stderr."""
    former, ours = sys.stdout, _WithoutRay(sys.stdout)
    sys.stdout = ours  # type: ignore[assignment]
    try:
        yield
    finally:
        if sys.stdout is ours:
            sys.stdout = former


class _WithoutRay:
    """A stream for everybody's words but those of Ray's threads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        of_ray = threading.current_thread().name.startswith("ray_")
        return (sys.stderr if of_ray else self._stream).write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
