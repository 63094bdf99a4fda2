"""Facts that are remembered between commands: what a model offers and what its data are, by the stamps of their files.

Fingerprinting means reading every weight and every record, which takes seconds; planning a finished study should not.
A fact holds while the files behind it have their size and time, and the code that read them too. It can be wrong only
where somebody forges both, and then the step that would use it refuses: steps check fingerprints against the bytes
themselves. Everything here may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tombola.canonical import digest

#: The rooms whose code decides the facts.
ROOMS = ("models", "tasks", "plan")

Stamp = tuple[str, int, int]


def cache_folder() -> Path:
    """``TOMBOLA_CACHE``, or a folder in the user's cache: everything in it may be deleted at any time."""
    given = os.environ.get("TOMBOLA_CACHE")
    return Path(given or f"{os.environ.get('XDG_CACHE_HOME', '~/.cache')}/tombola").expanduser()


def remembered(
    about: Mapping[str, Any], stamps: Iterable[Stamp], make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The fact about ``about``, made anew where a file has changed since it was written down."""
    from tombola import files
    from tombola.errors import CorruptArtifact

    key = digest({"about": dict(about), "stamps": [list(stamp) for stamp in stamps], "code": _code()})
    path = cache_folder() / "facts" / f"{key}.json"
    if path.is_file():
        with contextlib.suppress(CorruptArtifact, KeyError, TypeError):
            entry = files.read_json(path)
            if entry["digest"] == digest(entry["fact"]):
                return entry["fact"]
    fact = make()
    with contextlib.suppress(OSError):  # a cache that cannot be written is no harm
        files.write_json(path, {"fact": fact, "digest": digest(fact)})
    return fact


def stamps_of(paths: Iterable[Path]) -> list[Stamp]:
    """Size and time of files, by their full names."""
    found = []
    for path in sorted(paths):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((str(path), status.st_size, status.st_mtime_ns))
    return found


@cache
def _code() -> str:
    """What has read the files: this library's rooms and transformers' classes."""
    home = Path(__file__).parent.parent
    stamps = stamps_of(path for room in ROOMS for path in (home / room).rglob("*.py"))
    return digest({"stamps": [list(stamp) for stamp in stamps], "transformers": version("transformers")})
