"""Submissions to GLUE: the benchmark's own format, and every way in which a file may be wrong."""

from __future__ import annotations

import zipfile

import pytest

from tombola.errors import DataError
from tombola.tasks.submission import FILES, check_submission, check_zip, file_text


def text(name: str, **changes: str) -> str:
    """A right file, with lines of it replaced: ``_3="…"`` is the fourth line."""
    lines = file_text(name, [0] * FILES[name].rows).splitlines()
    for place, line in changes.items():
        lines[int(place[1:])] = line
    return "\n".join(lines) + "\n"


def test_the_files_are_the_benchmarks():
    sizes = {name: file.rows for name, file in FILES.items()}
    assert sizes == {
        **{"CoLA.tsv": 1063, "SST-2.tsv": 1821, "MRPC.tsv": 1725, "STS-B.tsv": 1379, "MNLI-m.tsv": 9796},
        **{"MNLI-mm.tsv": 9847, "QNLI.tsv": 5463, "QQP.tsv": 390965, "RTE.tsv": 3000, "WNLI.tsv": 146},
        "AX.tsv": 1104,
    }


@pytest.mark.parametrize(
    ("name", "answers", "rows"),
    [
        ("RTE.tsv", [0, 1], ["0\tentailment", "1\tnot_entailment"]),
        ("QNLI.tsv", [1], ["0\tnot_entailment"]),
        ("MNLI-mm.tsv", [2, 1, 0], ["0\tcontradiction", "1\tneutral", "2\tentailment"]),
        # WNLI's labels are the other way round and written as numbers.
        ("WNLI.tsv", [1, 0], ["0\t1", "1\t0"]),
        ("CoLA.tsv", [1], ["0\t1"]),
        ("STS-B.tsv", [-0.2, 3.14159, 5.3], ["0\t0.000", "1\t3.142", "2\t5.000"]),
    ],
)
def test_a_file_is_written_in_the_benchmarks_words(name, answers, rows):
    assert file_text(name, answers) == "\n".join(["index\tprediction", *rows]) + "\n"


def test_right_files_have_no_problems_and_the_others_are_missing():
    found = check_submission({"WNLI.tsv": text("WNLI.tsv"), "RTE.tsv": text("RTE.tsv")})
    assert found.problems == ()
    assert set(found.missing) == set(FILES) - {"WNLI.tsv", "RTE.tsv"}
    assert not found.complete


def test_a_whole_submission_is_complete():
    assert check_submission({name: text(name) for name in FILES}).complete


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("WNLI.tsv", text("WNLI.tsv", _0="index,prediction"), "the first line"),
        ("WNLI.tsv", "", "the first line"),
        ("WNLI.tsv", text("WNLI.tsv").rsplit("\n", 2)[0] + "\n", "145 predictions; the test set has 146"),
        ("WNLI.tsv", text("WNLI.tsv") + "146\t0\n", "147 predictions"),
        ("WNLI.tsv", text("WNLI.tsv", _3="3\t0"), "row 3 is not index 2"),
        ("WNLI.tsv", text("WNLI.tsv", _3="2 0"), "row 3 is not index 2"),
        ("WNLI.tsv", text("WNLI.tsv", _1="0\tentailment"), "row 1 says 'entailment'; known: 0, 1"),
        ("RTE.tsv", text("RTE.tsv", _2="1\t1"), "row 2 says '1'; known: entailment, not_entailment"),
        ("STS-B.tsv", text("STS-B.tsv", _1="0\t5.1"), "row 1 says '5.1'; known: a number from 0 to 5"),
        ("STS-B.tsv", text("STS-B.tsv", _1="0\tnan"), "row 1 says 'nan'"),
        ("rte.tsv", text("RTE.tsv"), "the benchmark knows no such file"),
    ],
)
def test_every_fault_is_told(name, content, said):
    (problem,) = check_submission({name: content}).problems
    assert problem.startswith(f"{name}: ")
    assert said in problem


def test_a_zip_on_disk_is_checked(tmp_path):
    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("WNLI.tsv", text("WNLI.tsv"))
        opened.writestr("folder/RTE.tsv", text("RTE.tsv"))
    found = check_zip(path)
    assert [problem.partition(":")[0] for problem in found.problems] == ["folder/RTE.tsv"]
    assert "RTE.tsv" in found.missing


def test_what_is_no_zip_of_text_is_refused(tmp_path):
    for name, content in (("no.zip", b"not a zip"), ("none.zip", None)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match="no zip of text files"):
            check_zip(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "binary.zip", "w") as opened:
        opened.writestr("RTE.tsv", b"\xff\xfe")
    with pytest.raises(DataError, match="no zip of text files"):
        check_zip(tmp_path / "binary.zip")


def test_a_zip_that_would_fill_the_memory_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "large.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("RTE.tsv", b"0" * 50_000_001)
    with pytest.raises(DataError, match="larger than any file"):
        check_zip(tmp_path / "large.zip")
