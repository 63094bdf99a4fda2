"""A heatmap drawn: every number in its cell, the cell dark where the rule holds, the counts at the right."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle

from tombola.errors import UsageError
from tombola.report.digits import digits_for, number
from tombola.report.legend import Entry, arranged
from tombola.report.lettering import text_height, text_width, wrapped
from tombola.report.sheet import content_width, house_style, new_sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tombola.report.sheet import Sheet
    from tombola.studies.artefact import Heatmap

DARK, ON_DARK = "#1f3b5c", "#ffffff"
LIGHT, ON_LIGHT = "#d9e2ec", "#16202b"
EMPTY_FILL, EMPTY_LINES = "#ffffff", "#b0b7bf"
HATCH = "////"
SIZE = 9
CELL_HEIGHT, LEAST_CELL_WIDTH = 0.34, 0.5
#: Cells grow up to this width if their column labels can then stand upright.
UPRIGHT_CELL_WIDTH, UPRIGHT_GRID_WIDTH = 1.1, 7.5
LONGEST_LABEL = 2.2
SLOPE = 0.7072  # sine and cosine of the 45° of labels that lean
COUNT_LABEL, OTHERWISE, NO_VALUE = "count", "otherwise", "no result"
SWATCH = 0.16


@house_style()
def draw_heatmap(heatmap: Heatmap) -> Figure:
    """Every size follows from the labels and numbers, so that none is cut off or written over another."""
    _check_shape(heatmap)
    digits = digits_for(value for row in heatmap.values for value in row if value is not None)
    texts = [["" if value is None else number(value, digits) for value in row] for row in heatmap.values]
    counts = ["" if count is None else str(count) for count in heatmap.counts]
    row_labels = [wrapped(label, SIZE, LONGEST_LABEL) for label in heatmap.row_labels]
    heads = [wrapped(label, SIZE, LONGEST_LABEL) for label in heatmap.column_labels]
    heads += [COUNT_LABEL] if any(counts) else []
    titles = [wrapped(title, SIZE, LONGEST_LABEL) for title in (heatmap.row_title, heatmap.column_title)]

    cell_width, leaning = _cell_width(heads, [text for row in (*texts, counts) for text in row])
    cell_height = max([CELL_HEIGHT, *(text_height(label, SIZE) + 0.08 for label in row_labels)])
    left = max(text_width(label, SIZE) for label in [titles[0], *row_labels]) + 0.1
    above, beyond = _heads_room(heads, leaning, cell_width)
    title_height = text_height(titles[1], SIZE) + 0.06
    top = max(title_height + above, text_height(titles[0], SIZE) + 0.06)
    centres = [left + (j + 0.5) * cell_width for j in range(len(heatmap.column_labels))]
    # The counts stand apart from the cells.
    centres += [left + (len(centres) + 0.7) * cell_width] if any(counts) else []
    grid_width = max(len(heatmap.column_labels) * cell_width, text_width(titles[1], SIZE))
    width = max([left + grid_width, *(x + cell_width / 2 + beyond for x in centres[-1:])])
    bottom = top + len(texts) * cell_height
    legend = arranged(_entries(heatmap), SWATCH, content_width(width))

    sheet = new_sheet(heatmap.title, heatmap.notes, max(width, legend.width), bottom + 0.15 + legend.height)
    sheet.write(titles[0], left - 0.08, top - 0.05, SIZE, ha="right", va="bottom", style="italic")
    sheet.write(titles[1], left + grid_width / 2, 0, SIZE, ha="center", style="italic")
    for head, x in zip(heads, centres, strict=True):
        _write_head(sheet, head, x, top, leaning)
    for i, row in enumerate(texts):
        y = top + (i + 0.5) * cell_height
        sheet.write(row_labels[i], left - 0.08, y, SIZE, ha="right", va="center")
        for j, text in enumerate(row):
            fill = _fill(heatmap.values[i][j], heatmap.dark[i][j])
            sheet.page.add_patch(
                Rectangle((left + j * cell_width, top + i * cell_height), cell_width, cell_height, **fill)
            )
            colour = ON_DARK if heatmap.dark[i][j] else ON_LIGHT
            sheet.write(text, centres[j], y, SIZE, ha="center", va="center", color=colour)
        if any(counts):
            sheet.write(counts[i], centres[-1], y, SIZE, ha="center", va="center", weight="bold")
    legend.draw(sheet, bottom + 0.15)
    return sheet.figure


def _check_shape(heatmap: Heatmap) -> None:
    rows, columns = len(heatmap.row_labels), len(heatmap.column_labels)
    matrices = {"values": heatmap.values, "dark": heatmap.dark, "runs": heatmap.runs}
    for name, matrix in matrices.items():
        if [len(row) for row in matrix] != [columns] * rows and not (name == "runs" and not matrix):
            raise UsageError(
                f"a heatmap of {rows} row labels and {columns} column labels needs as many {name}",
                where=f"{heatmap.name}: {name}",
            )
    if len(heatmap.counts) not in (0, rows):
        raise UsageError(
            f"{len(heatmap.counts)} counts for {rows} rows",
            where=f"{heatmap.name}: counts",
            todo="give None for a row that has none",
        )


def _cell_width(heads: Sequence[str], texts: Sequence[str]) -> tuple[float, bool]:
    """Inches a cell is wide, and whether the labels above must lean."""
    width = max([LEAST_CELL_WIDTH, *(text_width(text, SIZE, bold=True) + 0.12 for text in texts)])
    upright = max([width, *(text_width(head, SIZE) + 0.1 for head in heads)])
    if upright == width or (upright <= UPRIGHT_CELL_WIDTH and upright * len(heads) <= UPRIGHT_GRID_WIDTH):
        return upright, False
    return max([width, *(text_height(head, SIZE) / SLOPE + 0.05 for head in heads)]), True


def _heads_room(heads: Sequence[str], leaning: bool, cell_width: float) -> tuple[float, float]:
    """Inches that the column labels take above the cells, and to the right of the last one."""
    if not leaning:
        return max([text_height(head, SIZE) for head in heads], default=0) + 0.06, 0.0
    sides = [SLOPE * (text_width(head, SIZE) + text_height(head, SIZE)) for head in heads]
    # A label leans over its neighbours to the right.
    over = [side - cell_width * (len(heads) - j - 0.5) for j, side in enumerate(sides)]
    return max(sides) + 0.06, max(0.0, *over)


def _write_head(sheet: Sheet, head: str, x: float, top: float, leaning: bool) -> None:
    if not leaning:
        sheet.write(head, x, top - 0.05, SIZE, ha="center", va="bottom")
        return
    lift = SLOPE * text_height(head, SIZE) / 2
    sheet.write(head, x, top - 0.05 - lift, SIZE, va="center", rotation=45)


def _fill(value: float | None, dark: bool) -> dict[str, Any]:
    """How the cell is painted; the frame of an empty one lies over its neighbours'."""
    if value is None:
        return {"facecolor": EMPTY_FILL, "edgecolor": EMPTY_LINES, "hatch": HATCH, "zorder": 1.1}
    return {"facecolor": DARK if dark else LIGHT, "edgecolor": "#ffffff", "linewidth": 1.0}


def _entries(heatmap: Heatmap) -> list[Entry]:
    """The legend's: the rule if it is worded, and empty cells if there are any."""
    cells = [
        (value, dark)
        for values, darks in zip(heatmap.values, heatmap.dark, strict=True)
        for value, dark in zip(values, darks, strict=True)
    ]
    entries = []
    if heatmap.rule:
        entries.append(Entry(heatmap.rule, partial(_draw_swatch, 0.0, True)))
        if any(value is not None and not dark for value, dark in cells):
            entries.append(Entry(OTHERWISE, partial(_draw_swatch, 0.0, False)))
    if any(value is None for value, _ in cells):
        entries.append(Entry(NO_VALUE, partial(_draw_swatch, None, False)))
    return entries


def _draw_swatch(value: float | None, dark: bool, page: Axes, x: float, y: float) -> None:
    page.add_patch(Rectangle((x, y - 0.055), SWATCH, 0.11, **_fill(value, dark)))
