"""Text files as people keep them: UTF-8 with or without a byte order mark, any line ends; anything else is
said clearly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tombola.errors import DataError

#: What other encodings begin with.
_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def at(path: Path, row: int | None = None) -> str:
    """The place of an error: the file, and the row as an editor counts it."""
    return str(path) if row is None else f"{path}, row {row}"


def read_content(path: Path, what: str = "the data file") -> bytes:
    """The bytes of a file that must be there and hold something."""
    if not path.exists():
        raise DataError(f"{what} does not exist", where=at(path), todo="check the path")
    if not path.is_file():
        raise DataError(f"{what} is a folder, not a file", where=at(path), todo="name the file in it")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{what} cannot be read ({error.strerror})", where=at(path)) from None
    if not content.strip():
        raise DataError(f"{what} is empty", where=at(path))
    return content


def read_text(path: Path, what: str = "the data file") -> str:
    """The text of a UTF-8 file without its byte order mark; line ends as they are."""
    content = read_content(path, what)
    mark = _MARKS.get(content[:2])
    try:
        if mark:
            raise DataError(f"{what} is {mark}, not UTF-8", where=at(path, 1), todo="save it as UTF-8")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = _row_of(content, error.start)
        byte = content[error.start]
        raise DataError(
            f"{what} is not UTF-8: byte 0x{byte:02x} in this row",
            where=at(path, row),
            todo="save it as UTF-8",
        ) from None
    if not text.strip():
        raise DataError(f"{what} is empty", where=at(path))
    return text


def _row_of(content: bytes, position: int) -> int:
    return content[:position].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1


def read_lines(path: Path, what: str = "the data file") -> Iterator[tuple[int, str]]:
    """(row, line) of every line that is not blank.

    Only \\n, \\r\\n and \\r end a line: str.splitlines would also cut at characters that occur in sentences.
    """
    text = read_text(path, what).replace("\r\n", "\n").replace("\r", "\n")
    for row, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield row, line


def read_json_lines(path: Path, what: str = "the data file") -> Iterator[tuple[int, dict[str, Any]]]:
    """(row, object) of every line of a JSON Lines file."""
    for row, line in read_lines(path, what):
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            raise DataError(
                f"this line is not JSON: {reason}", where=at(path, row), todo="one JSON object a line"
            ) from None
        if not isinstance(value, dict):
            raise DataError(
                "this line is not a JSON object", where=at(path, row), todo="one JSON object a line"
            )
        yield row, value
