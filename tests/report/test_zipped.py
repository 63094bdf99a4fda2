from __future__ import annotations

import io
import zipfile

from tombola.report import zipped
from tombola.report.writing import write_artefacts
from tombola.report.zipped import zip_file
from tombola.studies.artefact import Archive

MINE = Archive("mine", "Files of *mine*", (("b.tsv", "index\n0\n"), ("a.tsv", "α\n")), ("a note",))


def test_a_zip_holds_the_files_in_their_order() -> None:
    ((name, content),) = zip_file(MINE).items()
    assert name == "mine.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        assert [(entry.filename, opened.read(entry).decode()) for entry in opened.infolist()] == [*MINE.files]


def test_equal_archives_have_equal_bytes_whatever_the_hour(monkeypatch) -> None:
    first = zip_file(MINE)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert zip_file(MINE) == first
    with zipfile.ZipFile(io.BytesIO(first["mine.zip"])) as opened:
        assert {entry.date_time for entry in opened.infolist()} == {zipped.EPOCH}


def test_a_folder_of_results_names_the_archive_and_its_files(tmp_path) -> None:
    paths = write_artefacts([MINE], tmp_path)
    assert [path.name for path in paths] == ["mine.zip", "index.md"]
    index = (tmp_path / "index.md").read_text()
    assert "### Files of \\*mine\\*" in index
    assert "- b.tsv\n- a.tsv\n- a note" in index
    assert "[zip](mine.zip)" in index
