"""The numbers behind a figure, and the runs behind the numbers: as CSV, a row a number, and as plain JSON."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from tombola.report.tables import RUN_DIGITS, plain_value
from tombola.studies.artefact import Bars, Curves

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tombola.studies.artefact import BarPanel, Curve, Figure, Heatmap, Panel

CURVES_HEADER = ("panel", "curve", "x", "mean", "std", "runs")
HEATMAP_HEADER = ("row", "column", "value", "dark", "row count", "runs")
BARS_HEADER = ("panel", "bar", "value", "low", "high", "runs")


def to_csv(figure: Figure) -> str:
    """RFC 4180, full precision, empty where there is no number."""
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    if isinstance(figure, Curves):
        writer.writerow(CURVES_HEADER)
        writer.writerows(_curves_rows(figure))
    elif isinstance(figure, Bars):
        writer.writerow(BARS_HEADER)
        writer.writerows(_bars_rows(figure))
    else:
        writer.writerow(HEATMAP_HEADER)
        writer.writerows(_heatmap_rows(figure))
    return written.getvalue()


def to_json(figure: Figure) -> dict[str, Any]:
    """The whole figure: nothing is rounded, nothing left out."""
    common = {"name": figure.name, "title": figure.title, "notes": list(figure.notes)}
    if isinstance(figure, Curves):
        panels = [_panel_json(panel) for panel in figure.panels]
        # What is not said of a figure is not in its file: figures drawn before stay as they are.
        falling = {"x_falls": True} if figure.x_falls else {}
        return {"kind": "curves", **common, "x_label": figure.x_label, **falling, "panels": panels}
    if isinstance(figure, Bars):
        return {"kind": "bars", **common, "panels": [_bar_panel_json(panel) for panel in figure.panels]}
    return {
        "kind": "heatmap",
        **common,
        "row_title": figure.row_title,
        "column_title": figure.column_title,
        "row_labels": list(figure.row_labels),
        "column_labels": list(figure.column_labels),
        "values": [_plain(row) for row in figure.values],
        "dark": [list(row) for row in figure.dark],
        "rule": figure.rule,
        "counts": list(figure.counts),
        "runs": [[list(cell) for cell in row] for row in figure.runs],
    }


def _panel_json(panel: Panel) -> dict[str, Any]:
    level = {"value": plain_value(panel.level[0]), "label": panel.level[1]} if panel.level else None
    curves = [_curve_json(curve) for curve in panel.curves]
    regions = [{"label": region.label, "low": region.low, "high": region.high} for region in panel.regions]
    named = {"regions": regions} if regions else {}
    return {"title": panel.title, "y_label": panel.y_label, "level": level, "curves": curves, **named}


def _bar_panel_json(panel: BarPanel) -> dict[str, Any]:
    bars = [
        {
            "label": bar.label,
            "value": plain_value(bar.value),
            "text": bar.text,
            "low": plain_value(bar.low),
            "high": plain_value(bar.high),
            "runs": list(bar.runs),
        }
        for bar in panel.bars
    ]
    return {"title": panel.title, "y_label": panel.y_label, "base": panel.base, "bars": bars}


def _curve_json(curve: Curve) -> dict[str, Any]:
    return {
        "label": curve.label,
        "x": _plain(curve.x),
        "mean": _plain(curve.mean),
        "std": _plain(curve.std),
        "runs": [list(runs) for runs in curve.runs],
    }


def _curves_rows(curves: Curves) -> Iterable[tuple[Any, ...]]:
    for panel in curves.panels:
        for curve in panel.curves:
            runs = curve.runs or ((),) * len(curve.x)
            points = zip(
                _plain(curve.x), _plain(curve.mean), _plain(curve.std), map(_shortened, runs), strict=True
            )
            for point in points:
                yield (panel.title, curve.label, *point)
        if panel.level:
            yield (panel.title, panel.level[1], None, plain_value(panel.level[0]), None, "")


def _heatmap_rows(heatmap: Heatmap) -> Iterable[tuple[Any, ...]]:
    for i, row in enumerate(heatmap.row_labels):
        count = heatmap.counts[i] if heatmap.counts else None
        for j, column in enumerate(heatmap.column_labels):
            runs = _shortened(heatmap.runs[i][j]) if heatmap.runs else ""
            yield row, column, plain_value(heatmap.values[i][j]), int(heatmap.dark[i][j]), count, runs


def _bars_rows(figure: Bars) -> Iterable[tuple[Any, ...]]:
    for panel in figure.panels:
        for bar in panel.bars:
            numbers = (plain_value(number) for number in (bar.value, bar.low, bar.high))
            yield panel.title, bar.label, *numbers, _shortened(bar.runs)


def _plain(values: Iterable[float | None]) -> list[Any]:
    return [plain_value(value) for value in values]


def _shortened(runs: tuple[str, ...]) -> str:
    return " ".join(run[:RUN_DIGITS] for run in runs)
