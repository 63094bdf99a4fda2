"""A figure as files: SVG, PDF and PNG to look at, JSON and CSV with the numbers and runs behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.files import write_bytes
from tombola.report.figure_data import to_csv, to_json
from tombola.report.tables import json_text

if TYPE_CHECKING:
    from pathlib import Path

    from tombola.studies.artefact import Figure

PICTURES = ("svg", "pdf", "png")
DATA = ("csv", "json")


def write_figure(artefact: Figure, folder: Path) -> list[Path]:
    """Write ``<name>.svg``, ``.pdf``, ``.png``, ``.csv`` and ``.json``; equal figures have equal bytes."""
    files = figure_files(artefact)
    for name, content in files.items():
        write_bytes(folder / name, content)
    return [folder / name for name in files]


def figure_names(artefact: Figure) -> list[str]:
    """Names of a figure's files. The JSON comes last: where it is, the pictures of its numbers are."""
    return [f"{artefact.name}.{kind}" for kind in (*PICTURES, *DATA)]


def figure_files(artefact: Figure) -> dict[str, bytes]:
    """The files' contents by name."""
    from tombola.report.drawing import pictures

    return {**pictures(artefact), **data_files(artefact)}


def data_files(artefact: Figure) -> dict[str, bytes]:
    """The numbers' files by name; these need no drawing."""
    texts = {"csv": to_csv(artefact), "json": json_text(to_json(artefact))}
    return {f"{artefact.name}.{kind}": texts[kind].encode() for kind in DATA}


def is_drawn(artefact: Figure, folder: Path) -> bool:
    """Whether the folder holds this very figure: its numbers, and a picture of each kind."""
    if not all((folder / name).is_file() for name in figure_names(artefact)):
        return False
    return all((folder / name).read_bytes() == content for name, content in data_files(artefact).items())
