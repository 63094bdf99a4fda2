"""Tables and figures to draw and write, and what a drawn figure shows."""

from __future__ import annotations

import random

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from tombola.studies.artefact import Cell, Curve, Curves, Heatmap, Panel, Table

LONG = "a task whose name is much longer than anybody would want to read it"


def cell(value, text=None, **other) -> Cell:
    return Cell(value, ("" if value is None else str(value)) if text is None else text, **other)


def table(name="table-4") -> Table:
    return Table(
        name,
        "Table 4: full model and tickets",
        ("task", "sparsity", "full model", "winning ticket"),
        (
            (
                cell("MNLI"),
                cell(0.7, "70 %"),
                cell(82.4, "82.4 ± 0.5", runs=("ab" * 32,)),
                cell(82.6, strong=True),
            ),
            (cell("a_b*c|d", runs=("cd" * 32,)), cell(None, "–"), cell(-1.25, "-1.3"), cell(None)),
        ),
        ("mean of 5 seeds",),
    )


def heatmap(rows=4, columns=5, *, name="transfer", label="{}", empty=(), **other) -> Heatmap:
    """Numbers drawn between -9 and 9; dark where they are above 0; the last row has no count."""
    drawn = random.Random(0)
    values = tuple(
        tuple(None if (i, j) in empty else drawn.uniform(-9, 9) for j in range(columns)) for i in range(rows)
    )
    dark = tuple(tuple(value is not None and value > 0 for value in row) for row in values)
    given = {
        "title": "Transfer at 70 %",
        "row_labels": tuple(label.format(f"from {i}") for i in range(rows)),
        "column_labels": tuple(label.format(f"to {j}") for j in range(columns)),
        "rule": "the ticket wins: F ≤ P + σ",
        "counts": (*(sum(row) for row in dark[:-1]), None)[:rows],
        "notes": ("the mean of 5 seeds",),
    }
    return Heatmap(name, values=values, dark=dark, **(given | other))


def curve(label="imp", shares=(0.0, 0.5, 0.9), *, std: float | None = 0.5, base=80.0) -> Curve:
    return Curve(label, shares, tuple(base - 9 * share for share in shares), (std,) * len(shares))


def curves(panels=4, *, name="curves", title="task {}", labels=("imp", "random"), **other) -> Curves:
    drawn = tuple(
        Panel(
            title.format(i),
            "accuracy",
            tuple(curve(label, base=80.0 - 3 * k) for k, label in enumerate(labels)),
            (52.7, "majority class") if i % 2 else None,
        )
        for i in range(panels)
    )
    return Curves(name, "Score against sparsity", "sparsity", drawn, **other)


def shown(figure: Figure) -> list[Text]:
    """Every text that is drawn, those of ticks included."""
    found = list(figure.texts)
    for axes in figure.axes:
        found += [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
        if axes.axison:
            found += [*axes.get_xticklabels(), *axes.get_yticklabels()]
    return [text for text in found if text.get_text()]


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in shown(figure)]


def extents(figure: Figure, dpi: float = 200) -> dict[Text, tuple[float, float, float, float]]:
    """Where each text is drawn, in pixels: left, bottom, right, top."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    return {text: text.get_window_extent(canvas.get_renderer()).extents for text in shown(figure)}


def assert_all_inside(figure: Figure) -> None:
    for text, (left, bottom, right, top) in extents(figure).items():
        inside = left >= 0 and bottom >= 0 and right <= figure.bbox.width and top <= figure.bbox.height
        assert inside, f"{text} at {left, bottom, right, top} of {figure.bbox.size}"


def assert_none_overlap(figure: Figure) -> None:
    """Not of texts that lean: their extents are much larger than their letters."""
    places = [(text, place) for text, place in extents(figure).items() if text.get_rotation() % 90 == 0]
    for i, (text, (left, bottom, right, top)) in enumerate(places):
        for other, (left2, bottom2, right2, top2) in places[:i]:
            apart = right <= left2 or right2 <= left or top <= bottom2 or top2 <= bottom
            assert apart, f"{text} over {other}"
