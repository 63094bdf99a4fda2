from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace
from typing import Any

import matplotlib
import pytest
from tests.report.artefacts import curve, curves, heatmap

from tombola.report.figure_data import to_csv, to_json
from tombola.report.figures import figure_files, write_figure
from tombola.report.tables import json_text
from tombola.studies.artefact import Curve, Curves, Heatmap, Panel


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return figure_files(heatmap(empty={(0, 0)})) | figure_files(curves(1))


def test_a_figure_is_written_in_every_format(tmp_path, files) -> None:
    paths = write_figure(heatmap(empty={(0, 0)}), tmp_path / "new")
    assert [path.name for path in paths] == [
        f"transfer.{kind}" for kind in ("svg", "pdf", "png", "csv", "json")
    ]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(path.name for path in paths)
    for path in paths:
        assert path.read_bytes() == files[path.name]


def test_equal_figures_have_equal_bytes_whatever_the_hour_and_the_users_settings(files, monkeypatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    theirs: dict[Any, Any] = {
        "font.size": 30,
        "svg.fonttype": "path",
        "svg.hashsalt": "x",
        "savefig.bbox": "tight",
        "figure.dpi": 30,
    }
    with matplotlib.rc_context(theirs):
        assert figure_files(heatmap(empty={(0, 0)})) | figure_files(curves(1)) == files
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_other_figures_have_other_bytes(files, kind: str) -> None:
    given = heatmap(empty={(0, 0)})
    other = replace(given, dark=tuple(tuple(not dark for dark in row) for row in given.dark))
    assert figure_files(other)[f"transfer.{kind}"] != files[f"transfer.{kind}"]


def test_no_file_knows_when_or_by_which_version_it_was_made(files) -> None:
    for name, content in files.items():
        assert not re.search(rb"\b20[2-9]\d-\d\d-\d\d", content), name
        assert b"CreationDate" not in content
        assert b"Matplotlib" not in content


def test_text_stays_text_in_svg(files) -> None:
    svg = files["transfer.svg"].decode()
    assert "<title>Transfer at 70 %</title>" in svg
    for word in ("from 0", "to 4", "the ticket wins: F ≤ P + σ"):
        assert f">{word}</text>" in svg


def test_a_picture_is_sharp_enough_to_print(files) -> None:
    png = files["curves.png"]
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20]) > 800


def test_pyplot_is_never_loaded() -> None:
    assert "matplotlib.pyplot" not in sys.modules


def test_json_gives_back_the_whole_heatmap() -> None:
    given = replace(heatmap(empty={(0, 0)}), runs=(((("ab" * 32),),) * 5,) * 4)
    read = json.loads(json_text(to_json(given)))
    assert read.pop("kind") == "heatmap"

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    assert Heatmap(**{name: frozen(value) for name, value in read.items()}) == given


def test_json_gives_back_the_curves() -> None:
    given = curves(2, notes=("a note",))
    read = json.loads(json_text(to_json(given)))
    panels = tuple(
        Panel(
            panel["title"],
            panel["y_label"],
            tuple(
                Curve(one["label"], tuple(one["x"]), tuple(one["mean"]), tuple(one["std"]))
                for one in panel["curves"]
            ),
            panel["level"] and (panel["level"]["value"], panel["level"]["label"]),
        )
        for panel in read["panels"]
    )
    assert Curves(read["name"], read["title"], read["x_label"], panels, tuple(read["notes"])) == given
    assert read["kind"] == "curves"


def test_the_runs_behind_every_point_are_in_its_json_and_csv() -> None:
    runs = (("ab" * 32, "cd" * 32), (), ("ef" * 32,))
    given = Curves("c", "t", "x", (Panel("RTE", "y", (replace(curve(), runs=runs, std=(1.0, None, 0.1)),)),))
    assert to_json(given)["panels"][0]["curves"][0]["runs"] == [list(each) for each in runs]
    assert list(csv.reader(io.StringIO(to_csv(given)))) == [
        ["panel", "curve", "x", "mean", "std", "runs"],
        ["RTE", "imp", "0.0", "80.0", "1.0", "abababababab cdcdcdcdcdcd"],
        ["RTE", "imp", "0.5", "75.5", "", ""],
        ["RTE", "imp", "0.9", "71.9", "0.1", "efefefefefef"],
    ]


def test_a_level_is_a_row_without_x() -> None:
    given = Curves("c", "t", "x", (Panel("RTE", "y", (), (52.7, "majority class")),))
    assert to_csv(given).splitlines()[1] == "RTE,majority class,,52.7,,"


def test_csv_of_a_heatmap_has_a_row_a_cell() -> None:
    given = Heatmap(
        "h",
        "t",
        ("MLM", "a,b"),
        ("RTE",),
        ((0.1 + 0.2,), (None,)),
        ((True,), (False,)),
        "",
        counts=(1, None),
        runs=((("ab" * 32,),), ((),)),
    )
    assert list(csv.reader(io.StringIO(to_csv(given)))) == [
        ["row", "column", "value", "dark", "row count", "runs"],
        ["MLM", "RTE", repr(0.1 + 0.2), "1", "1", "abababababab"],
        ["a,b", "RTE", "", "0", "", ""],
    ]
