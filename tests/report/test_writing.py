from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.artefacts import curves, heatmap, table

from tombola.errors import UsageError
from tombola.report import drawing
from tombola.report.tables import to_markdown
from tombola.report.writing import write_artefacts

NEW = (table(), heatmap(2, 2), table("table-5"))
OLD = (
    replace(table(), title="old"),
    replace(heatmap(2, 2), title="old"),
    replace(table("table-5"), title="old"),
)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def new(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("new")
    write_artefacts(NEW, folder)
    return contents(folder)


def test_every_artefact_has_its_files_and_the_index_is_last(tmp_path) -> None:
    paths = write_artefacts([table(), heatmap(2, 2), curves(1)], tmp_path / "report")
    names = [f"table-4.{kind}" for kind in ("csv", "json", "md", "tex")]
    names += [
        f"{name}.{kind}" for name in ("transfer", "curves") for kind in ("svg", "pdf", "png", "csv", "json")
    ]
    assert [path.name for path in paths] == [*names, "index.md"]
    assert set(contents(tmp_path / "report")) == {*names, "index.md"}


def test_the_index_shows_everything_in_order(tmp_path) -> None:
    given = [table(), heatmap(2, 2)]
    index = write_artefacts(given, tmp_path, title="All of *it*", notes=["first note", "- second"])[
        -1
    ].read_text()
    assert index == (
        "# All of \\*it\\*\n\n- first note\n- \\- second\n\n"
        + to_markdown(table())
        + "\n[csv](table-4.csv) · [json](table-4.json) · [md](table-4.md) · [tex](table-4.tex)\n\n"
        "### Transfer at 70 %\n\n![Transfer at 70 %](transfer.svg)\n\n"
        "[svg](transfer.svg) · [pdf](transfer.pdf) · [png](transfer.png)"
        " · [csv](transfer.csv) · [json](transfer.json)\n"
    )


def test_an_empty_report_is_a_title(tmp_path) -> None:
    assert [path.read_text() for path in write_artefacts([], tmp_path)] == ["# Tables and figures\n"]


def test_writing_again_gives_the_same_bytes_and_leaves_other_files(tmp_path, new) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    write_artefacts(OLD, tmp_path)
    assert contents(tmp_path) != new | {"mine.txt": b"mine"}
    write_artefacts(NEW, tmp_path)
    assert contents(tmp_path) == new | {"mine.txt": b"mine"}


def test_a_figure_that_cannot_be_drawn_leaves_the_old_report_whole(tmp_path) -> None:
    write_artefacts(OLD, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(UsageError):
        write_artefacts([*NEW, heatmap(2, 2, name="broken", counts=(1,))], tmp_path)
    assert contents(tmp_path) == before


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.report.test_writing import NEW
from tombola.report.writing import write_artefacts

replace, left = os.replace, [6]

def killing(*paths):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*paths)

os.replace = killing
write_artefacts(NEW, Path(sys.argv[1]))
"""


def test_a_kill_in_the_middle_leaves_every_file_old_or_new(tmp_path, new) -> None:
    """The files that were written before are those of this process too, so the bytes depend on no process."""
    write_artefacts(OLD, tmp_path)
    old = contents(tmp_path)
    surroundings = os.environ | {
        "PYTHONHASHSEED": "1",
        "TZ": "Asia/Tokyo",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], env=surroundings, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    after = {name: content for name, content in contents(tmp_path).items() if not name.endswith(".partial")}
    assert after.keys() == old.keys()
    written = [name for name in new if after[name] == new[name] != old[name]]
    assert sorted(written) == ["table-4.json", "table-4.md", "table-4.tex", "transfer.pdf", "transfer.svg"]
    assert all(after[name] == old[name] for name in new if name not in written)


@pytest.mark.parametrize(
    "name", ["", "a/b", "..", "../a", ".hidden", "a b", "ü", "index", "Index", "Table-4"]
)
def test_names_that_cannot_be_files_are_refused_before_anything_is_written(tmp_path, name: str) -> None:
    with pytest.raises(UsageError):
        write_artefacts([table(), table(name)], tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_a_figure_that_is_there_is_not_drawn_again(tmp_path, monkeypatch):
    figure = heatmap(2, 2)
    write_artefacts([figure], tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    drawn = []
    former = drawing.pictures
    monkeypatch.setattr(drawing, "pictures", lambda artefact: drawn.append(artefact.name) or former(artefact))
    write_artefacts([figure], tmp_path)
    assert drawn == []
    (tmp_path / f"{figure.name}.svg").unlink()
    write_artefacts([figure], tmp_path)
    assert drawn == [figure.name]
    other = replace(figure, title="another title")
    write_artefacts([other], tmp_path)
    assert drawn == [figure.name] * 2
    write_artefacts([figure], tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
