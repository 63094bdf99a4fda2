"""The legend of a figure: samples with their words, side by side where they fit, beneath each other where not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tombola.report.lettering import text_height, text_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from tombola.report.sheet import Sheet

SIZE = 8.5
BETWEEN_ENTRIES, BETWEEN_ROWS, BESIDE_SAMPLE = 0.25, 0.05, 0.07


@dataclass(frozen=True)
class Entry:
    """``draw`` draws the sample from this x on, around this y, both in inches."""

    label: str
    draw: Callable[[Axes, float, float], None]


@dataclass(frozen=True)
class Legend:
    """Entries with the inches where each begins."""

    places: tuple[tuple[Entry, float, float], ...]
    sample_width: float
    width: float
    height: float

    def draw(self, sheet: Sheet, top: float) -> None:
        for entry, x, y in self.places:
            entry.draw(sheet.page, x, top + y + text_height("one line", SIZE) / 2)
            sheet.write(entry.label, x + self.sample_width + BESIDE_SAMPLE, top + y, SIZE)


def arranged(entries: Sequence[Entry], sample_width: float, room: float) -> Legend:
    """The legend within ``room`` inches; without entries its width and height are 0."""
    places: list[tuple[Entry, float, float]] = []
    x = y = row_height = widest = 0.0
    for entry in entries:
        label = wrapped(entry.label, SIZE, room - sample_width - BESIDE_SAMPLE)
        width = sample_width + BESIDE_SAMPLE + text_width(label, SIZE)
        if x and x + width > room:
            x, y, row_height = 0.0, y + row_height + BETWEEN_ROWS, 0.0
        places.append((Entry(label, entry.draw), x, y))
        widest = max(widest, x + width)
        x += width + BETWEEN_ENTRIES
        row_height = max(row_height, text_height(label, SIZE))
    return Legend(tuple(places), sample_width, widest, y + row_height)
