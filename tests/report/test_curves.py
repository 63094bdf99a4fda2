from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from tests.report.artefacts import LONG, assert_all_inside, assert_none_overlap, curve, curves, words

from tombola.errors import UsageError
from tombola.report.curves import COLOURS, draw_curves
from tombola.report.figure_data import to_json
from tombola.studies.artefact import Curve, Curves, Panel, Region

SHAPES = {
    "nothing": curves(0),
    "one": curves(1),
    "two": curves(2),
    "paper": curves(4, labels=("imp", "random", "reinit", "shuffle", "super ticket")),
    "eleven": curves(11, title=LONG + " {}"),
    "twenty lines": curves(3, labels=tuple(f"{LONG} {i}" for i in range(20)), notes=(LONG * 3,) * 2),
    "a panel without curves": Curves("c", "Title", "x", (Panel("task", LONG, ()),)),
    "large and small numbers": Curves(
        "c",
        "y" * 200,
        LONG * 3,
        tuple(Panel("t", "y", (curve(base=base),)) for base in (1e-5, 123456789.0, -0.4)),
    ),
    "close shares": Curves("c", "t", "x", (Panel("t", "y", (curve(shares=(0.99, 0.991, 0.99125)),)),) * 3),
}


def one_panel(*lines: Curve, level=None) -> Curves:
    return Curves("c", "Title", "sparsity", (Panel("RTE", "accuracy", lines, level),))


def panels(drawn) -> list[Any]:
    """The axes behind the sheet's page."""
    return drawn.axes[1:]


def kinds(axes, kind) -> list:
    return [one for one in axes.collections if isinstance(one, kind) and len(one.get_paths())]


def test_lines_are_the_means() -> None:
    given = curves(4)
    for axes, panel in zip(panels(draw_curves(given)), given.panels, strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        for one in panel.curves:
            assert tuple(lines[one.label].get_xdata()) == one.x
            assert tuple(lines[one.label].get_ydata()) == one.mean


def test_the_band_is_mean_plus_and_minus_std() -> None:
    (axes,) = panels(draw_curves(one_panel(Curve("imp", (0.0, 0.5), (80.0, 70.0), (1.0, 2.0)))))
    (band,) = kinds(axes, PolyCollection)
    corners = {(round(x, 9), round(y, 9)) for x, y in band.get_paths()[0].vertices}
    assert corners == {(0.0, 79.0), (0.0, 81.0), (0.5, 68.0), (0.5, 72.0)}


def test_without_std_there_is_no_band() -> None:
    (axes,) = panels(draw_curves(one_panel(curve(std=None))))
    assert not kinds(axes, PolyCollection)
    assert not kinds(axes, LineCollection)


def test_the_band_ends_where_the_std_does() -> None:
    given = Curve("imp", (0.0, 0.1, 0.2, 0.3), (80.0,) * 4, (1.0, 1.0, None, None))
    (axes,) = panels(draw_curves(one_panel(given)))
    (band,) = kinds(axes, PolyCollection)
    assert band.get_paths()[0].vertices[:, 0].max() == pytest.approx(0.1)


def test_a_single_point_is_seen_and_so_is_its_std() -> None:
    (axes,) = panels(draw_curves(one_panel(Curve("imp", (0.7,), (65.0,), (1.5,)))))
    (line,) = axes.lines
    assert line.get_marker() not in (None, "", "None")
    assert axes.get_xlim()[0] < 0.7 < axes.get_xlim()[1]
    (bar,) = kinds(axes, LineCollection)
    assert bar.get_segments()[0].tolist() == [[0.7, 63.5], [0.7, 66.5]]


def test_the_level_is_a_dashed_line_across_in_the_legend_once() -> None:
    drawn = draw_curves(curves(4))
    levels = [line for axes in panels(drawn) for line in axes.lines if set(line.get_ydata()) == {52.7}]
    assert len(levels) == 2
    assert all(line.is_dashed() for line in levels)
    assert words(drawn).count("majority class") == 1


def test_everything_drawn_is_within_its_axes() -> None:
    (axes,) = panels(draw_curves(one_panel(curve(std=5.0), level=(20.0, "majority"))))
    low, high = axes.get_ylim()
    assert low < 20.0
    assert high > 85.0


def test_one_legend_names_every_curve_once_in_order() -> None:
    labels = ("imp", "random", "_hidden", "$5 and $6")
    drawn = draw_curves(curves(4, labels=labels))
    assert [word for word in words(drawn) if word in labels] == list(labels)


def test_a_long_legend_makes_the_figure_higher_not_wider() -> None:
    few, many = draw_curves(curves(3)), draw_curves(SHAPES["twenty lines"])
    assert many.get_figwidth() == few.get_figwidth()
    assert many.get_figheight() > few.get_figheight() + 2


def test_twenty_curves_are_told_apart_without_their_colours_and_keep_their_looks() -> None:
    labels = tuple(f"curve {i}" for i in range(20))
    drawn = draw_curves(curves(2, labels=labels))

    def looks(axes) -> dict[str, tuple]:
        return {
            line.get_label(): (line.get_color(), line.get_marker(), str(line._dash_pattern))
            for line in axes.lines
            if line.get_label() in labels
        }

    first, second = map(looks, panels(drawn))
    assert first == second
    assert len(set(first.values())) == 20
    uncoloured = [look[1:] for look in first.values()]
    assert all(uncoloured.index(look) == i for i, look in enumerate(uncoloured))


def test_neighbours_differ_in_brightness() -> None:
    greys = [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in map(to_rgb, COLOURS)]
    assert all(abs(one - other) > 0.1 for one, other in pairwise(greys))


def test_shares_are_marked_in_percent() -> None:
    (axes,) = panels(draw_curves(one_panel(curve(shares=(0.0, 0.45, 0.9)))))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0 %", "20 %", "40 %", "60 %", "80 %"]
    assert axes.get_xticks().tolist() == [0.0, 0.2, 0.4, 0.6, 0.8]


def test_close_shares_get_the_decimals_that_tell_them_apart() -> None:
    (axes, *_) = panels(draw_curves(SHAPES["close shares"]))
    marked = [label.get_text() for label in axes.get_xticklabels()]
    assert len(set(marked)) == len(marked) >= 2


def test_panels_share_their_x_axis_and_stand_three_a_row() -> None:
    drawn = draw_curves(curves(7))
    assert len({axes.get_xlim() for axes in panels(drawn)}) == 1
    places = [axes.get_position() for axes in panels(drawn)]
    rows = sorted({round(place.y0, 6) for place in places}, reverse=True)
    assert [sum(round(place.y0, 6) == row for place in places) for row in rows] == [3, 3, 1]


def test_what_is_not_a_number_is_a_gap() -> None:
    (axes,) = panels(draw_curves(one_panel(Curve("imp", (0.0, 0.5), (80.0, math.nan), (1.0, math.nan)))))
    assert all(map(math.isfinite, axes.get_ylim()))


@pytest.mark.parametrize("given", SHAPES.values(), ids=SHAPES)
def test_no_text_is_cut_off_or_written_over_another(given: Curves) -> None:
    drawn = draw_curves(given)
    assert_all_inside(drawn)
    assert_none_overlap(drawn)


@pytest.mark.parametrize("wrong", [{"mean": (1.0,)}, {"std": ()}, {"runs": (("a",),)}])
def test_a_curve_that_does_not_fit_together_says_so(wrong: dict) -> None:
    with pytest.raises(UsageError, match="a curve of 3 points has") as error:
        draw_curves(one_panel(replace(curve(), **wrong)))
    assert error.value.where == "c: RTE: imp"


# -- falling axes and regions ---------------------------------------------------------------------------------------

THREE = (Region("I", 0.9, 1.0), Region("II", 0.6, 0.9), Region("III", None, 0.6))


def phased(*regions: Region, shares=(1.0, 0.9, 0.8, 0.6, 0.55), **other) -> Curves:
    return Curves(
        "c", "Title", "weight", (Panel("RTE", "accuracy", (curve(shares=shares),), None, regions),), **other
    )


def test_an_axis_may_fall_to_the_right() -> None:
    (axes,) = panels(draw_curves(phased(x_falls=True)))
    left, right = axes.get_xlim()
    assert left > 1.0 > 0.55 > right
    (other,) = panels(draw_curves(phased()))
    assert other.get_xlim() == (right, left)


def test_regions_are_shaded_behind_the_lines_from_border_to_border() -> None:
    (axes,) = panels(draw_curves(phased(*THREE, x_falls=True)))
    found = [(round(patch.get_x(), 9), round(patch.get_x() + patch.get_width(), 9)) for patch in axes.patches]
    assert found[:2] == [(0.9, 1.0), (0.6, 0.9)]
    assert found[2] == (pytest.approx(axes.get_xlim()[1]), 0.6), "an open region reaches to the axis's end"
    assert all(patch.zorder < axes.lines[0].zorder for patch in axes.patches)
    assert len({patch.get_facecolor() for patch in axes.patches}) == 3


def test_every_region_is_named_once_and_the_lines_keep_below_the_names() -> None:
    drawn = draw_curves(phased(*THREE, x_falls=True))
    assert [word for word in words(drawn) if set(word) == {"I"}] == ["I", "II", "III"]
    (axes,) = panels(drawn)
    low, high = axes.get_ylim()
    highest = 80.0 - 9 * 0.55 + 0.5  # the end of the band
    assert (highest - low) / (high - low) < 0.9
    assert_all_inside(drawn)
    assert_none_overlap(drawn)


def test_a_narrow_region_at_the_end_keeps_its_name_inside_the_frame() -> None:
    narrow = (Region("II", 0.551, 1.0), Region("III", None, 0.551))
    drawn = draw_curves(phased(*narrow, x_falls=True))
    (axes,) = panels(drawn)
    drawn.draw_without_rendering()
    (name,) = [text for text in axes.texts if text.get_text() == "III"]
    frame, place = axes.get_window_extent(), name.get_window_extent()
    assert frame.x0 - 1 <= place.x0
    assert place.x1 <= frame.x1 + 1


def test_a_figure_without_regions_says_nothing_of_them() -> None:
    plain, shaded = to_json(phased()), to_json(phased(*THREE, x_falls=True))
    assert "regions" not in plain["panels"][0]
    assert "x_falls" not in plain
    assert shaded["panels"][0]["regions"][2] == {"label": "III", "low": None, "high": 0.6}
    assert shaded["x_falls"] is True
