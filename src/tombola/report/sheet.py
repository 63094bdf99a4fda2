"""The sheet that every figure is drawn on: its title above, a body measured in inches, its notes beneath."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib.style
from matplotlib.figure import Figure

from tombola.report.lettering import (
    BASELINE,
    FAMILY,
    LEADING,
    POINTS_PER_INCH,
    text_height,
    text_width,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

TITLE_SIZE = 11
NOTE_SIZE = 8
NOTE_COLOUR = "#444444"
MARGIN = 0.15
#: Titles and notes of the smallest figure still want lines of some words.
NARROWEST = 4.6
BULLET = "– "
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": [FAMILY],
    "text.parse_math": False,  # a dollar in a label is a dollar
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,  # Type 3, the default, is refused by publishers
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "tombola",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Figures look the same whatever the user's own matplotlib settings are, and leave these as they were.

    matplotlib has no other way to set these than for the whole process while a figure is drawn."""
    with matplotlib.style.context(["default", STYLE]):
        yield


@dataclass(frozen=True)
class Sheet:
    """``page`` covers the whole figure. Its coordinates are inches to the right of and below the body's corner."""

    figure: Figure
    page: Axes

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes whose frame lies at these inches of the body."""
        across, down = self.figure.get_size_inches()
        x, y = self.page.transAxes.inverted().transform(self.page.transData.transform((left, top + height)))
        return self.figure.add_axes((x, y, width / across, height / down))

    def write(
        self,
        text: str,
        x: float,
        y: float,
        size: float,
        *,
        va: str = "top",
        rotation: float = 0,
        **style: Any,
    ) -> None:
        """Text at these inches of the body: its left upper corner, if ``ha`` and ``va`` do not say else.

        A line is as high whatever letters it has, so that neighbours stand on one line."""
        down = math.sin(math.radians(rotation)), math.cos(math.radians(rotation))
        start = {"top": 0.0, "center": -0.5, "bottom": -1.0}[va] * text_height(text, size)
        for number, line in enumerate(text.split("\n") if text else []):
            drop = start + (number * LEADING + BASELINE) * size / POINTS_PER_INCH
            place = {"rotation": rotation, "rotation_mode": "anchor", "va": "baseline"}
            self.page.text(x + down[0] * drop, y + down[1] * drop, line, size=size, **place, **style)


def content_width(body_width: float) -> float:
    """Inches a line of title, legend or notes may take above and below a body of this width."""
    return max(body_width, NARROWEST)


def new_sheet(title: str, notes: Sequence[str], width: float, height: float) -> Sheet:
    """A sheet for a body of ``width`` × ``height`` inches, title and notes already written on it."""
    room = content_width(width)
    heading = wrapped(title, TITLE_SIZE, room, bold=True)
    indent = text_width(BULLET, NOTE_SIZE)
    listed = [wrapped(note, NOTE_SIZE, room - indent) for note in notes]
    above = MARGIN + (text_height(heading, TITLE_SIZE) + 0.1 if heading else 0)
    below = MARGIN + (0.1 if listed else 0) + sum(text_height(note, NOTE_SIZE) + 0.03 for note in listed)
    across = max(
        [width, text_width(heading, TITLE_SIZE, bold=True)]
        + [indent + text_width(note, NOTE_SIZE) for note in listed]
    )
    figure = Figure(figsize=(across + 2 * MARGIN, above + height + below), facecolor="white")
    page = figure.add_axes((0, 0, 1, 1), xlim=(-MARGIN, across + MARGIN), ylim=(height + below, -above))
    page.set_axis_off()
    sheet = Sheet(figure, page)
    sheet.write(heading, 0, MARGIN - above, TITLE_SIZE, weight="bold")
    y = height + 0.1
    for note in listed:
        sheet.write(BULLET, 0, y, NOTE_SIZE, color=NOTE_COLOUR)
        sheet.write(note, indent, y, NOTE_SIZE, color=NOTE_COLOUR)
        y += text_height(note, NOTE_SIZE) + 0.03
    return sheet
