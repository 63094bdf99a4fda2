"""A figure as files: SVG, PDF and PNG to look at, JSON and CSV with the numbers and runs behind it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tombola.files import write_bytes
from tombola.report.curves import draw_curves
from tombola.report.figure_data import to_csv, to_json
from tombola.report.heatmaps import draw_heatmap
from tombola.report.sheet import house_style
from tombola.report.tables import json_text
from tombola.studies.artefact import Curves

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from tombola.studies.artefact import Heatmap

PNG_DPI = 200
#: What matplotlib would note by itself, its version and the hour, makes equal figures differ.
UNDATED = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def draw(artefact: Curves | Heatmap) -> Figure:
    return draw_curves(artefact) if isinstance(artefact, Curves) else draw_heatmap(artefact)


def write_figure(artefact: Curves | Heatmap, folder: Path) -> list[Path]:
    """Write ``<name>.svg``, ``.pdf``, ``.png``, ``.json`` and ``.csv``; equal figures have equal bytes."""
    files = figure_files(artefact)
    for name, content in files.items():
        write_bytes(folder / name, content)
    return [folder / name for name in files]


def figure_files(artefact: Curves | Heatmap) -> dict[str, bytes]:
    """The files' contents by name."""
    figure = draw(artefact)
    files = {f"{artefact.name}.{kind}": _file_bytes(figure, kind, artefact.title) for kind in UNDATED}
    files[f"{artefact.name}.json"] = json_text(to_json(artefact)).encode()
    files[f"{artefact.name}.csv"] = to_csv(artefact).encode()
    return files


@house_style()
def _file_bytes(figure: Figure, kind: str, title: str) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format=kind, dpi=PNG_DPI, metadata={"Title": title, **UNDATED[kind]})
    return written.getvalue()
