"""A folder of results: every table and figure in all its formats, and one page that shows them all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tombola.errors import UsageError
from tombola.files import write_bytes
from tombola.report.figures import data_files, figure_files, figure_names, is_drawn
from tombola.report.tables import (
    json_text,
    markdown_escaped,
    markdown_list,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
)
from tombola.report.zipped import zip_file
from tombola.studies.artefact import Archive, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tombola.studies.artefact import Artefact, Figure

INDEX = "index"


def write_artefacts(
    artefacts: Sequence[Artefact],
    folder: Path,
    *,
    title: str = "Tables and figures",
    notes: Sequence[str] = (),
) -> list[Path]:
    """Write the files of every artefact and last ``index.md`` with ``title``, ``notes`` and all of them.

    Everything is made before the first file is replaced, and each file is the old or the new one at any moment. A
    figure whose numbers are there already is not drawn again (delete its files to have it drawn).
    """
    _check_names([artefact.name for artefact in artefacts])
    files: dict[str, bytes] = {}
    parts = [f"# {markdown_escaped(title)}\n", *([markdown_list(notes) + "\n"] if notes else [])]
    for artefact in artefacts:
        if isinstance(artefact, Table):
            own, shown = table_files(artefact), to_markdown(artefact)
            names = list(own)
        elif isinstance(artefact, Archive):
            own, shown = zip_file(artefact), _archive_markdown(artefact)
            names = list(own)
        else:
            own = data_files(artefact) if is_drawn(artefact, folder) else figure_files(artefact)
            shown, names = _figure_markdown(artefact), figure_names(artefact)
        files |= own
        parts += [shown, " · ".join(f"[{name.rsplit('.', 1)[1]}]({name})" for name in names) + "\n"]
    files[f"{INDEX}.md"] = "\n".join(parts).encode()
    for name, content in files.items():
        if not _holds(folder / name, content):
            write_bytes(folder / name, content)
    return [folder / name for name in files]


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def table_files(table: Table) -> dict[str, bytes]:
    """The files' contents by name."""
    texts = {
        "csv": to_csv(table),
        "json": json_text(to_json(table)),
        "md": to_markdown(table),
        "tex": to_latex(table),
    }
    return {f"{table.name}.{kind}": text.encode() for kind, text in texts.items()}


def _archive_markdown(archive: Archive) -> str:
    listed = markdown_list([*(name for name, _ in archive.files), *archive.notes])
    return f"### {markdown_escaped(archive.title)}\n\n{listed}\n"


def _figure_markdown(figure: Figure) -> str:
    title = markdown_escaped(figure.title)
    return f"### {title}\n\n![{title}]({figure.name}.svg)\n"


def _check_names(names: Sequence[str]) -> None:
    """Names become files and links: no folders, no blanks, none twice where a disk ignores case."""
    taken = {INDEX}
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise UsageError(
                f"'{name}' cannot name a table or figure",
                where="name",
                todo="use letters, digits, dots, dashes and underscores",
            )
        if name.lower() in taken:
            raise UsageError(f"two results would be written as '{name}'", where="name", todo="rename one")
        taken.add(name.lower())
