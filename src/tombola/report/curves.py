"""Curves drawn: a panel a task, a line a curve with its mean ± std as a band, one legend for all panels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tombola.errors import UsageError
from tombola.report.digits import MOST_DIGITS, number
from tombola.report.legend import Entry, arranged
from tombola.report.lettering import text_height, text_width, wrapped
from tombola.report.sheet import content_width, house_style, new_sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tombola.studies.artefact import Curve, Curves, Panel

#: Okabe and Ito's colours, told apart by colour-blind readers; neighbours differ in brightness too.
COLOURS = ("#0072B2", "#E69F00", "#000000", "#D55E00", "#CC79A7", "#009E73", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (5, 1.4, 1.2, 1.4)))
LEVEL_COLOUR = "#666666"
#: Shades of a panel's regions, in their order: pale, so that lines and bands stay what is seen.
SHADES = ("#dff0e4", "#fbf0d4", "#f8e0da")
REGION_COLOUR, REGION_SIZE = "#555555", 8
LEVEL_DASHES = ((0, (4, 3)), (0, (1, 2)), (0, (6, 2, 1, 2)))
GRID_COLOUR = "#e2e5e9"
TITLE_SIZE, LABEL_SIZE, TICK_SIZE = 9.5, 9, 8
#: Columns of the grid for so many panels, and inches of one panel's frame for so many columns.
COLUMNS = {1: 1, 2: 2, 4: 2}
MOST_COLUMNS = 3
FRAMES = {1: (4.4, 2.7), 2: (3.0, 2.1), 3: (2.3, 1.75)}
SAMPLE = 0.42


@dataclass(frozen=True)
class Ticks:
    """An axis: its ends, and where it is marked with what."""

    low: float
    high: float
    places: tuple[float, ...]
    labels: tuple[str, ...]


@house_style()
def draw_curves(curves: Curves) -> Figure:
    """Curves of the same label look alike in all panels; all panels have the same x axis and each its own y axis."""
    _check_lengths(curves)
    panels = curves.panels
    columns = COLUMNS.get(len(panels), MOST_COLUMNS)
    frame_width, frame_height = FRAMES[columns]
    across = _x_ticks([x for panel in panels for curve in panel.curves for x in curve.x], frame_width)
    ends = (across.high, across.low) if curves.x_falls else (across.low, across.high)
    upward = [_y_ticks(panel) for panel in panels]
    titles = [wrapped(panel.title, TITLE_SIZE, frame_width, bold=True) for panel in panels]
    y_labels = [wrapped(panel.y_label, LABEL_SIZE, frame_height) for panel in panels]

    y_label_width = max([text_height(label, LABEL_SIZE) for label in y_labels], default=0.0)
    tick_width = max(
        [text_width(label, TICK_SIZE) for ticks in upward for label in ticks.labels], default=0.0
    )
    left = y_label_width + 0.06 + tick_width + 0.1
    pitch = left + frame_width + 0.2
    rows = [range(first, min(first + columns, len(panels))) for first in range(0, len(panels), columns)]
    tops, bottom = [], -0.1
    for row in rows:
        tops.append(bottom + 0.15 + max(text_height(titles[i], TITLE_SIZE) for i in row))
        bottom = tops[-1] + frame_height + 0.3
    width = max([len(row) for row in rows], default=0) * pitch
    x_label = wrapped(curves.x_label, LABEL_SIZE, content_width(width))
    width = max(width, text_width(x_label, LABEL_SIZE))
    legend_top = bottom + text_height(x_label, LABEL_SIZE) + 0.1
    looks = _curve_looks(panels)
    levels = _level_looks(panels)
    entries = [Entry(label, partial(_draw_sample, look)) for label, look in [*looks.items(), *levels.items()]]
    legend = arranged(entries, SAMPLE, content_width(width))

    sheet = new_sheet(curves.title, curves.notes, max(width, legend.width), legend_top + legend.height)
    for i, panel in enumerate(panels):
        x, y = left + (i % columns) * pitch, tops[i // columns]
        axes = sheet.axes(x, y, frame_width, frame_height)
        _prepare(axes, across, upward[i], ends)
        _shade(axes, panel, across, frame_width)
        for curve in panel.curves:
            _draw_curve(axes, curve, looks[curve.label])
        if panel.level is not None:
            axes.axhline(panel.level[0], **levels[panel.level[1]])
        sheet.write(
            titles[i], x + frame_width / 2, y - 0.05, TITLE_SIZE, ha="center", va="bottom", weight="bold"
        )
        label_x, middle = x - left + y_label_width / 2, y + frame_height / 2
        sheet.write(y_labels[i], label_x, middle, LABEL_SIZE, ha="center", va="center", rotation=90)
    sheet.write(x_label, width / 2, bottom, LABEL_SIZE, ha="center")
    legend.draw(sheet, legend_top)
    return sheet.figure


def _check_lengths(curves: Curves) -> None:
    for panel in curves.panels:
        for curve in panel.curves:
            points = len(curve.x)
            found = {"means": len(curve.mean), "stds": len(curve.std), "runs": len(curve.runs) or points}
            for what, count in found.items():
                if count != points:
                    raise UsageError(
                        f"a curve of {points} points has {count} {what}",
                        where=f"{curves.name}: {panel.title}: {curve.label}",
                        todo="give as many of each, and None where a std is unknown",
                    )


def _curve_looks(panels: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    """How each label's line is drawn, by first appearance: no two have the same colour, marker and dashes."""
    labels = dict.fromkeys(curve.label for panel in panels for curve in panel.curves)
    return {
        label: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i % len(DASHES)],
            "linewidth": 1.4,
            "markersize": 5,
            "markeredgecolor": "#ffffff",
            "markeredgewidth": 0.5,
        }
        for i, label in enumerate(labels)
    }


def _level_looks(panels: Sequence[Panel]) -> dict[str, dict[str, Any]]:
    """The same for horizontal references: grey, thin, without markers."""
    labels = dict.fromkeys(panel.level[1] for panel in panels if panel.level is not None)
    return {
        label: {
            "color": LEVEL_COLOUR,
            "linestyle": LEVEL_DASHES[i % len(LEVEL_DASHES)],
            "linewidth": 1.0,
            "zorder": 1.5,
        }
        for i, label in enumerate(labels)
    }


def _draw_sample(look: dict[str, Any], page: Axes, x: float, y: float) -> None:
    page.add_line(Line2D([x, x + SAMPLE / 2, x + SAMPLE], [y] * 3, markevery=[1], **look))


def _prepare(axes: Axes, across: Ticks, upward: Ticks, ends: tuple[float, float]) -> None:
    axes.set_xlim(*ends)
    axes.set_ylim(upward.low, upward.high)
    axes.set_xticks(across.places, across.labels)
    axes.set_yticks(upward.places, upward.labels)
    axes.tick_params(labelsize=TICK_SIZE, length=3, color="#888888")
    axes.grid(axis="y", color=GRID_COLOUR, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")


def _shade(axes: Axes, panel: Panel, across: Ticks, width: float) -> None:
    """Regions behind everything else, each with its name at its upper edge."""
    for region, shade in zip(panel.regions, cycle(SHADES), strict=False):
        low = across.low if region.low is None else region.low
        high = across.high if region.high is None else region.high
        axes.axvspan(low, high, color=shade, linewidth=0, zorder=0)
        # A narrow region at the end of the axis keeps its name inside the frame.
        half = text_width(region.label, REGION_SIZE, bold=True) / 2 / width * (across.high - across.low)
        axes.text(
            min(max((low + high) / 2, across.low + half), across.high - half),
            0.985,
            region.label,
            size=REGION_SIZE,
            color=REGION_COLOUR,
            ha="center",
            va="top",
            weight="bold",
            transform=axes.get_xaxis_transform(),
        )


def _draw_curve(axes: Axes, curve: Curve, look: dict[str, Any]) -> None:
    axes.plot(curve.x, curve.mean, label=curve.label, **look)
    known = [std is not None for std in curve.std]
    low = [mean - (std or 0) for mean, std in zip(curve.mean, curve.std, strict=True)]
    high = [mean + (std or 0) for mean, std in zip(curve.mean, curve.std, strict=True)]
    if any(known):
        axes.fill_between(curve.x, low, high, where=known, color=look["color"], alpha=0.15, linewidth=0)
    # A band has no width where neither neighbour has a std.
    padded = [False, *known, False]
    alone = [i for i in range(len(known)) if padded[i : i + 3] == [False, True, False]]
    axes.vlines(
        [curve.x[i] for i in alone],
        [low[i] for i in alone],
        [high[i] for i in alone],
        color=look["color"],
        linewidth=1.2,
    )


def _x_ticks(shares: Sequence[float], width: float) -> Ticks:
    """In percent, as many as stand beside each other without touching."""
    low, high = _ends(shares, 0.03)
    most = 6
    ticks = _ticks(100 * low, 100 * high, most, " %")
    while most > 2 and sum(text_width(label, TICK_SIZE) + 0.12 for label in ticks.labels) > width:
        most -= 1
        ticks = _ticks(100 * low, 100 * high, most, " %")
    return Ticks(low, high, tuple(place / 100 for place in ticks.places), ticks.labels)


def _y_ticks(panel: Panel) -> Ticks:
    """Room for every mean, its band and the horizontal reference."""
    values = [] if panel.level is None else [panel.level[0]]
    for curve in panel.curves:
        for mean, std in zip(curve.mean, curve.std, strict=True):
            values += [mean - (std or 0), mean + (std or 0)]
    low, high = _ends(values, 0.06)
    # The names of regions stand above the lines.
    return _ticks(low, high + (high - low) * 0.1 if panel.regions else high, 5, "")


def _ends(values: Sequence[float], margin: float) -> tuple[float, float]:
    """The least and the largest value with a margin, which a single value needs as well."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    room = (high - low) * margin or abs(low) * 0.1 or 0.1
    return low - room, high + room


def _ticks(low: float, high: float, most: int, unit: str) -> Ticks:
    found = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    places = [float(place) for place in found if low <= place <= high]
    digits = 0
    while digits < MOST_DIGITS and any(
        not math.isclose(round(place, digits), place, abs_tol=(high - low) * 1e-6) for place in places
    ):
        digits += 1
    return Ticks(low, high, tuple(places), tuple(number(place, digits) + unit for place in places))
