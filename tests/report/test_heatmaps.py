from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from tests.report.artefacts import LONG, assert_all_inside, assert_none_overlap, extents, heatmap, words

from tombola.errors import UsageError
from tombola.report.heatmaps import DARK, LIGHT, ON_DARK, ON_LIGHT, draw_heatmap
from tombola.studies.artefact import Heatmap

SHAPES = {
    "one": heatmap(1, 1),
    "one with a long label": heatmap(1, 1, label=LONG + " {}"),
    "one without words": heatmap(1, 1, row_title="", column_title="", rule="", title="", notes=(), label=""),
    "paper": heatmap(4, 5, empty={(3, 4)}),
    "large with long labels": heatmap(12, 11, label=LONG + " {}", empty={(1, 1), (2, 2)}),
    "one row": heatmap(1, 12, label="longer {}"),
    "one column": heatmap(12, 1),
    "long everything": heatmap(2, 2, row_title=LONG, column_title=LONG, rule=LONG * 3, notes=(LONG * 3,) * 3),
    "long words": heatmap(2, 3, label="x" * 80 + "{}", title="y" * 200, rule="z" * 200, notes=("n" * 300,)),
    "nothing": heatmap(0, 0),
}


def cells(drawn) -> dict[tuple[int, int], Rectangle]:
    """The rectangles of the grid by row and column, found by where they lie; the legend's are smaller."""
    found = [patch for patch in drawn.axes[0].patches if patch.get_width() > 0.3]
    rows = sorted({patch.get_y() for patch in found})
    columns = sorted({patch.get_x() for patch in found})
    return {(rows.index(patch.get_y()), columns.index(patch.get_x())): patch for patch in found}


def cell_texts(drawn) -> dict[tuple[int, int], Text]:
    """The texts that lie in a cell."""
    page = drawn.axes[0]
    return {
        place: text
        for place, patch in cells(drawn).items()
        for text in page.texts
        if patch.get_x() < text.get_position()[0] < patch.get_x() + patch.get_width()
        and patch.get_y() < text.get_position()[1] < patch.get_y() + patch.get_height()
    }


def test_every_number_is_in_its_cell() -> None:
    given = heatmap(4, 5, empty={(3, 4)})
    texts = cell_texts(draw_heatmap(given))
    assert (3, 4) not in texts
    for (i, j), text in texts.items():
        assert float(text.get_text().replace("−", "-")) == pytest.approx(given.values[i][j], abs=0.05)
    assert len(texts) == 19


def test_cells_are_dark_where_the_rule_holds_and_their_numbers_light() -> None:
    given = heatmap(4, 5)
    drawn = draw_heatmap(given)
    texts = cell_texts(drawn)
    for (i, j), patch in cells(drawn).items():
        assert to_hex(patch.get_facecolor()) == (DARK if given.dark[i][j] else LIGHT)
        assert texts[i, j].get_color() == (ON_DARK if given.dark[i][j] else ON_LIGHT)


def test_dark_is_what_was_said_not_what_is_large() -> None:
    drawn = draw_heatmap(Heatmap("h", "t", ("a",), ("x", "y"), ((1.0, 2.0),), ((True, False),), "smallest"))
    assert [to_hex(cells(drawn)[0, j].get_facecolor()) for j in (0, 1)] == [DARK, LIGHT]


def test_only_an_empty_cell_is_hatched() -> None:
    drawn = draw_heatmap(heatmap(4, 5, empty={(3, 4)}))
    assert [place for place, patch in cells(drawn).items() if patch.get_hatch()] == [(3, 4)]
    assert "no result" in words(drawn)
    assert "no result" not in words(draw_heatmap(heatmap(4, 5)))


def test_the_rule_the_titles_and_the_notes_are_written() -> None:
    written = words(draw_heatmap(heatmap()))
    assert {"the ticket wins: F ≤ P + σ", "otherwise", "source", "target", "the mean of 5 seeds"} <= set(
        written
    )
    assert {*heatmap().row_labels, *heatmap().column_labels, "Transfer at 70 %"} <= set(written)


def test_without_a_rule_there_is_no_legend() -> None:
    drawn = draw_heatmap(heatmap(rule=""))
    assert "otherwise" not in words(drawn)
    assert len(drawn.axes[0].patches) == 20


def test_counts_stand_at_the_right_of_their_rows() -> None:
    given = heatmap(3, 3, counts=(11, None, 0), rule="")
    drawn = draw_heatmap(given)
    grid = cells(drawn)
    right = grid[0, 2].get_x() + grid[0, 2].get_width()
    found = {
        text.get_text(): text.get_position() for text in drawn.axes[0].texts if text.get_position()[0] > right
    }
    assert set(found) == {"count", "11", "0"}
    assert grid[0, 0].get_y() < found["11"][1] < grid[1, 0].get_y()
    assert found["0"][1] > grid[2, 0].get_y()
    assert "count" not in words(draw_heatmap(heatmap(counts=())))
    assert "count" not in words(draw_heatmap(heatmap(2, 2, counts=(None, None))))


@pytest.mark.parametrize("given", SHAPES.values(), ids=SHAPES)
def test_no_text_is_cut_off_or_written_over_another(given: Heatmap) -> None:
    drawn = draw_heatmap(given)
    assert_all_inside(drawn)
    assert_none_overlap(drawn)


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e6])
def test_numbers_fit_into_their_cells(scale: float) -> None:
    given = heatmap(3, 3)
    drawn = draw_heatmap(
        replace(given, values=tuple(tuple((value or 0) * scale for value in row) for row in given.values))
    )
    places = extents(drawn)
    for place, text in cell_texts(drawn).items():
        cell = cells(drawn)[place].get_window_extent()
        left, bottom, right, top = places[text]
        assert cell.x0 < left < right < cell.x1
        assert cell.y0 < bottom < top < cell.y1


def test_labels_lean_only_where_they_must() -> None:
    def slopes(given: Heatmap) -> set[float]:
        return {text.get_rotation() for text in draw_heatmap(given).axes[0].texts}

    assert slopes(heatmap(4, 5)) == {0}
    assert slopes(heatmap(4, 5, label="a longer label {}")) == {0, 45}


def test_a_dollar_is_a_dollar() -> None:
    drawn = draw_heatmap(heatmap(1, 1, title="from $5 to $6"))
    assert not any(text.get_parse_math() for text in drawn.axes[0].texts)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"counts": (1,)}, "transfer: counts"),
        ({"row_labels": ("a",)}, "transfer: values"),
        ({"dark": ((True,),)}, "transfer: dark"),
        ({"runs": ((),)}, "transfer: runs"),
    ],
)
def test_a_heatmap_that_does_not_fit_together_says_so(wrong: dict, where: str) -> None:
    with pytest.raises(UsageError) as error:
        draw_heatmap(replace(heatmap(), **wrong))
    assert error.value.where == where
