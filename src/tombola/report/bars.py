"""Bars drawn: panels above each other, a bar a task in each, its number written at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from tombola.report.digits import number
from tombola.report.lettering import text_height, text_width, wrapped
from tombola.report.sheet import house_style, new_sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tombola.studies.artefact import Bar, BarPanel, Bars

#: One colour a panel, from the curves' palette; bars below their base are the second of each pair.
COLOURS = (("#0072B2", "#D55E00"), ("#6b7f94", "#6b7f94"))
ERROR_COLOUR, BASE_COLOUR, GRID_COLOUR = "#333333", "#666666", "#e2e5e9"
TITLE_SIZE, LABEL_SIZE, TICK_SIZE, VALUE_SIZE = 9.5, 9, 8, 8
FRAME_HEIGHT, NARROWEST_FRAME = 1.9, 3.6
#: Inches from one bar's middle to the next, and the share of them that the bar takes.
LEAST_PITCH, THICKNESS = 0.62, 0.62
#: Room above and below the bars for their numbers, as a share of the range.
HEADROOM = 0.2


@house_style()
def draw_bars(figure: Bars) -> Figure:
    """All panels are equally wide; each has a y axis of its own."""
    labels = list(dict.fromkeys(bar.label for panel in figure.panels for bar in panel.bars))
    texts = [bar.text for panel in figure.panels for bar in panel.bars]
    pitch = max(
        [
            LEAST_PITCH,
            *(text_width(label, TICK_SIZE) + 0.12 for label in labels),
            *(text_width(text, VALUE_SIZE) + 0.08 for text in texts),
        ]
    )
    width = max(NARROWEST_FRAME, pitch * max([1, *(len(panel.bars) for panel in figure.panels)]))
    titles = [wrapped(panel.title, TITLE_SIZE, width, bold=True) for panel in figure.panels]
    y_labels = [wrapped(panel.y_label, LABEL_SIZE, FRAME_HEIGHT) for panel in figure.panels]
    scales = [_scale(panel) for panel in figure.panels]
    label_width = max([text_height(label, LABEL_SIZE) for label in y_labels], default=0.0)
    ticks = max([text_width(text, TICK_SIZE) for *_, named in scales for text in named], default=0.0)
    left = label_width + 0.06 + ticks + 0.1
    tops, bottom = [], -0.05
    for title in titles:
        tops.append(bottom + 0.1 + text_height(title, TITLE_SIZE))
        bottom = tops[-1] + FRAME_HEIGHT + 0.28
    sheet = new_sheet(figure.title, figure.notes, left + width, max(bottom, 0.1))
    for i, panel in enumerate(figure.panels):
        axes = sheet.axes(left, tops[i], width, FRAME_HEIGHT)
        _draw_panel(axes, panel, scales[i], COLOURS[i % len(COLOURS)])
        sheet.write(
            titles[i],
            left + width / 2,
            tops[i] - 0.05,
            TITLE_SIZE,
            ha="center",
            va="bottom",
            weight="bold",
        )
        middle = tops[i] + FRAME_HEIGHT / 2
        sheet.write(y_labels[i], label_width / 2, middle, LABEL_SIZE, ha="center", va="center", rotation=90)
    return sheet.figure


Scale = tuple[float, float, tuple[float, ...], tuple[str, ...]]


def _scale(panel: BarPanel) -> Scale:
    """Ends and marks of the y axis: room for every bar, its error bar and its number."""
    values = [panel.base]
    for bar in panel.bars:
        values += [value for value in (bar.value, bar.low, bar.high) if value is not None]
    low, high = min(values), max(values)
    room = (high - low or 1.0) * HEADROOM
    low, high = (low - room if low < panel.base else low), (high + room if high > panel.base else high)
    if low == high:
        high = low + 1.0
    places = [
        float(place)
        for place in MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        if low - 1e-9 <= place <= high + 1e-9
    ]
    digits = 0 if all(abs(place - round(place)) < 1e-9 for place in places) else 1
    digits = digits if all(abs(place - round(place, digits)) < 1e-9 for place in places) else 2
    return low, high, tuple(places), tuple(number(place, digits) for place in places)


def _draw_panel(axes: Axes, panel: BarPanel, scale: Scale, colours: tuple[str, str]) -> None:
    low, high, places, named = scale
    axes.set_xlim(-0.5, max(len(panel.bars), 1) - 0.5)
    axes.set_ylim(low, high)
    axes.set_yticks(places, named)
    axes.set_xticks(range(len(panel.bars)), [bar.label for bar in panel.bars])
    axes.tick_params(labelsize=TICK_SIZE, length=3, color="#888888")
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color=GRID_COLOUR, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.spines["left"].set_color("#888888")
    axes.axhline(panel.base, color=BASE_COLOUR, linewidth=0.9, zorder=2)
    for place, bar in enumerate(panel.bars):
        _draw_bar(axes, place, bar, panel.base, (high - low) * 0.02, colours)


def _draw_bar(axes: Axes, place: int, bar: Bar, base: float, gap: float, colours: tuple[str, str]) -> None:
    if bar.value is None:
        axes.text(place, base + gap, bar.text, size=VALUE_SIZE, ha="center", va="bottom")
        return
    below = bar.value < base
    axes.bar(place, bar.value - base, THICKNESS, bottom=base, color=colours[below], linewidth=0, zorder=1.5)
    ends = [bar.value]
    if bar.low is not None and bar.high is not None:
        ends += [bar.low, bar.high]
        axes.vlines(place, bar.low, bar.high, color=ERROR_COLOUR, linewidth=1.1, zorder=2.5)
        axes.hlines(
            [bar.low, bar.high], place - 0.08, place + 0.08, color=ERROR_COLOUR, linewidth=1.1, zorder=2.5
        )
    # At the far end of bar and error bar, and never across the base line.
    end = min([*ends, base]) - gap if below else max([*ends, base]) + gap
    axes.text(place, end, bar.text, size=VALUE_SIZE, ha="center", va="top" if below else "bottom")
