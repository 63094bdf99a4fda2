"""A figure as pictures: SVG, PDF and PNG. The one module of the room that others load only when something is drawn."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tombola.report.bars import draw_bars
from tombola.report.curves import draw_curves
from tombola.report.heatmaps import draw_heatmap
from tombola.report.sheet import house_style
from tombola.studies.artefact import Bars, Curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn

    from tombola.studies.artefact import Figure

PNG_DPI = 200
#: What matplotlib would note by itself, its version and the hour, makes equal figures differ.
UNDATED = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def draw(artefact: Figure) -> Drawn:
    if isinstance(artefact, Curves):
        return draw_curves(artefact)
    return draw_bars(artefact) if isinstance(artefact, Bars) else draw_heatmap(artefact)


def pictures(artefact: Figure) -> dict[str, bytes]:
    """The pictures' contents by name; equal figures have equal bytes."""
    figure = draw(artefact)
    return {f"{artefact.name}.{kind}": _picture(figure, kind, artefact.title) for kind in UNDATED}


@house_style()
def _picture(figure: Drawn, kind: str, title: str) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format=kind, dpi=PNG_DPI, metadata={"Title": title, **UNDATED[kind]})
    return written.getvalue()
