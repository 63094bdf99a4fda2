"""Chosen columns of a user's own csv, tsv, jsonl or parquet file, each cell with the row it stands in.

Rows are counted from 1 as an editor shows them: a record of a csv stands where it begins, whatever line
breaks its quoted cells hold (RFC 4180). Parquet has no lines, its rows are counted from 1.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tombola.errors import DataError
from tombola.tasks.text_file import at, read_content, read_json_lines, read_text

Row = tuple[int, list[Any]]


@dataclass(frozen=True)
class Table:
    """``columns[name][i]`` is the cell of the i-th record, which stands in row ``rows[i]`` of ``path``."""

    path: Path
    rows: tuple[int, ...]
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, position: int) -> str:
        return at(self.path, self.rows[position])


def read_table(path: Path, wanted: Sequence[str], what: str = "the data file") -> Table:
    """The ``wanted`` columns of a file, whose ending says how to read it."""
    read = _reader(path)
    _, records = read(path, wanted, what)
    rows: list[int] = []
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    for row, cells in records:
        rows.append(row)
        for name, cell in zip(wanted, cells, strict=True):
            columns[name].append(cell)
    if not rows:
        raise DataError(f"{what} has no rows", where=at(path))
    return Table(path, tuple(rows), columns)


def column_names(path: Path, what: str = "the data file") -> list[str]:
    """The names of a file's columns (jsonl: of its first object)."""
    names, _ = _reader(path)(path, [], what)
    return names


def _reader(path: Path) -> Callable[[Path, Sequence[str], str], tuple[list[str], Iterator[Row]]]:
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise DataError(
            f"'{path.name}' is no kind of file that can be read",
            where=at(path),
            todo=f"give a file that ends in {', '.join(READERS)}",
        )
    return read


def _check_columns(names: Sequence[str], wanted: Sequence[str], where: str) -> None:
    for name in wanted:
        if name not in names:
            todo = "the first row must name the columns"
            if len(names) == 1 and (found := [mark for mark in ";\t,|" if mark in names[0]]):
                todo = (
                    f"the cells seem to be separated by {found[0]!r}: save with commas (.csv) or tabs (.tsv)"
                )
            listed = ", ".join(repr(known) for known in names)
            raise DataError(f"there is no column '{name}'; the columns are {listed}", where=where, todo=todo)
        if names.count(name) > 1:
            raise DataError(f"there are {names.count(name)} columns '{name}'", where=where, todo="rename one")


def _read_csv(
    path: Path, wanted: Sequence[str], what: str, delimiter: str
) -> tuple[list[str], Iterator[Row]]:
    records = _csv_records(path, what, delimiter)
    first, header = next(records)
    names = [name.strip() for name in header]
    _check_columns(names, wanted, at(path, first))
    places = [names.index(name) for name in wanted]

    def rows() -> Iterator[Row]:
        for row, cells in records:
            if len(cells) != len(names):
                raise DataError(
                    f"this row has {len(cells)} cells, the first row names {len(names)} columns",
                    where=at(path, row),
                    todo="put a cell that holds a separator into double quotes",
                )
            yield row, [cells[place] for place in places]

    return names, rows()


def _csv_records(path: Path, what: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(row where it begins, cells) of each record that is not blank."""
    reader = csv.reader(io.StringIO(read_text(path, what), newline=""), delimiter=delimiter, strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"the record that begins here cannot be read ({error})",
                where=at(path, begins),
                todo='is a double quote never closed? inside a quoted cell a quote is written twice: ""',
            ) from None
        if cells:
            yield begins, cells


def _read_jsonl(path: Path, wanted: Sequence[str], what: str) -> tuple[list[str], Iterator[Row]]:
    names: list[str] = list(next(read_json_lines(path, what))[1])
    _check_columns(names, wanted, at(path, 1))
    return names, ((row, [line.get(name) for name in wanted]) for row, line in read_json_lines(path, what))


def _read_parquet(path: Path, wanted: Sequence[str], what: str) -> tuple[list[str], Iterator[Row]]:
    import pyarrow
    import pyarrow.parquet

    read_content(path, what)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names: list[str] = list(file.schema_arrow.names)
            _check_columns(names, wanted, at(path))
            columns = file.read(columns=list(wanted)).to_pydict() if wanted else {}
    except (pyarrow.ArrowException, OSError) as error:
        reason = next(iter(str(error).splitlines()), "damaged")
        raise DataError(f"{what} is not a readable parquet file ({reason})", where=at(path)) from None
    cells = zip(*(columns[name] for name in wanted), strict=True)
    return names, ((row, list(values)) for row, values in enumerate(cells, 1))


READERS: dict[str, Callable[[Path, Sequence[str], str], tuple[list[str], Iterator[Row]]]] = {
    ".csv": partial(_read_csv, delimiter=","),
    ".tsv": partial(_read_csv, delimiter="\t"),
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
