from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.patches import Rectangle
from tests.report.artefacts import LONG, assert_all_inside, assert_none_overlap, words

from tombola.report.bars import draw_bars
from tombola.report.figure_data import to_csv, to_json
from tombola.report.figures import figure_files
from tombola.studies.artefact import Bar, BarPanel, Bars

GAINS = BarPanel(
    "Gain",
    "points",
    (
        Bar("rte", 3.3, "+3.3", 1.0, 5.6, runs=("ab" * 32, "cd" * 32)),
        Bar("cola", -0.4, "-0.4", -0.9, 0.2),
        Bar("mrpc", None, "–"),
        Bar("sst-2", 0.0, "0.0"),
    ),
)
PAPER = Bars("figure-3", "Gain and weight", (GAINS, replace(GAINS, title="Weight")), ("a note",))
SHAPES = {
    "nothing": Bars("b", "Title", ()),
    "a panel without bars": Bars("b", "Title", (BarPanel("one", LONG, ()),)),
    "the paper's": PAPER,
    "long labels": Bars(
        "b",
        LONG,
        (BarPanel(LONG, LONG, tuple(Bar(f"{LONG} {i}", i - 1.5, f"{i}") for i in range(4))),),
        (LONG,),
    ),
    "long numbers": Bars(
        "b", "t", (BarPanel("t", "y", tuple(Bar(f"t{i}", 1e6 * i, f"{1e6 * i:.3f}") for i in range(3))),)
    ),
    "small numbers": Bars("b", "t", (BarPanel("t", "y", (Bar("t", 1e-3, "0.001", 0.0, 2e-3),)),)),
    "all missing": Bars("b", "t", (BarPanel("t", "y", (Bar("t", None, "–"),)),)),
    "nine tasks": Bars(
        "b", "t", (BarPanel("t", "y", tuple(Bar(f"task {i}", 90.0 - i, f"{90 - i}%") for i in range(9))),)
    ),
}


def panels(drawn) -> list[Any]:
    """The axes behind the sheet's page."""
    return drawn.axes[1:]


def bars(axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_bars_are_as_high_as_their_values_and_stand_on_the_base() -> None:
    axes, _ = panels(draw_bars(PAPER))
    found = [(round(bar.get_x() + bar.get_width() / 2), bar.get_y(), bar.get_height()) for bar in bars(axes)]
    assert found == [(0, 0.0, 3.3), (1, 0.0, -0.4), (3, 0.0, 0.0)], "the third has no result"


def test_losses_have_another_colour_than_gains() -> None:
    up, down, _ = bars(panels(draw_bars(PAPER))[0])
    assert up.get_facecolor() != down.get_facecolor()


def test_bars_may_stand_on_another_base() -> None:
    (axes,) = panels(draw_bars(Bars("b", "t", (BarPanel("t", "y", (Bar("t", 90.0, "90"),), base=80.0),))))
    (bar,) = bars(axes)
    assert (bar.get_y(), bar.get_height()) == (80.0, 10.0)


def test_error_bars_reach_from_low_to_high() -> None:
    axes, _ = panels(draw_bars(PAPER))
    lines = [segment for lines in axes.collections for segment in lines.get_segments()]
    upright = [[tuple(end) for end in line] for line in lines if line[0][0] == line[1][0]]
    assert upright == [[(0, 1.0), (0, 5.6)], [(1, -0.9), (1, 0.2)]]


def test_every_number_stands_beyond_its_bar_and_error_bar() -> None:
    axes, _ = panels(draw_bars(PAPER))
    places = {text.get_text(): text.get_position() for text in axes.texts}
    assert places["+3.3"][1] > 5.6
    assert places["-0.4"][1] < -0.9
    assert places["–"] == (2, pytest.approx(0.0, abs=0.5))
    low, high = axes.get_ylim()
    assert low < places["-0.4"][1]
    assert places["+3.3"][1] < high


def test_every_word_is_drawn() -> None:
    found = words(draw_bars(PAPER))
    for word in ("Gain and weight", "Gain", "Weight", "points", "rte", "cola", "+3.3", "–", "a note"):
        assert word in found


@pytest.mark.parametrize("given", SHAPES.values(), ids=SHAPES)
def test_nothing_is_cut_off_and_nothing_overlaps(given: Bars) -> None:
    drawn = draw_bars(given)
    assert_all_inside(drawn)
    assert_none_overlap(drawn)


def test_the_numbers_are_written_in_full_with_their_runs() -> None:
    lines = to_csv(PAPER).splitlines()
    assert lines[:2] == ["panel,bar,value,low,high,runs", f"Gain,rte,3.3,1.0,5.6,{'ab' * 6} {'cd' * 6}"]
    assert lines[3] == "Gain,mrpc,,,,"
    found = to_json(PAPER)
    assert found["kind"] == "bars"
    assert found["panels"][0]["bars"][0]["runs"] == ["ab" * 32, "cd" * 32]
    assert json.loads(json.dumps(found)) == found


def test_equal_figures_have_equal_bytes() -> None:
    assert figure_files(PAPER) == figure_files(PAPER)
