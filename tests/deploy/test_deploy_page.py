"""docs/deploy.md does what it says: its Python and its commands are run, with a tiny ticket at the ticket's place."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tombola.cli.app import app
from tombola.deploy import onnx_folder

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
QUICK = ["--batch", "1", "--length", "8", "--repeats", "2", "--device", "cpu"]


@pytest.fixture
def place(super_ticket, exported, sentences, tmp_path, monkeypatch):
    """Where the page is read: the ticket is there, and so are the reviews; torch's exporter has done its work."""

    def to_onnx(model, path, inputs, *, opset):
        shutil.copy(exported.folder / "model.onnx", path)
        return exported.written

    monkeypatch.setattr(onnx_folder, "to_onnx", to_onnx)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(super_ticket, tmp_path / "tickets" / "my-super")
    shutil.copy(sentences, tmp_path / "reviews.csv")
    return tmp_path


def lines(verb):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    return [line for block in blocks for line in block.splitlines() if line.startswith(f"tombola {verb}")]


def run(line, *more):
    return CliRunner().invoke(app, [*shlex.split(line)[1:], *more], catch_exceptions=False)


def test_the_bench_commands_run(place):
    commands = [line for line in lines("bench") if "onnxruntime" not in line]
    assert len(commands) == 2
    for line in commands:
        done = run(line, *(QUICK if "--batch" not in line else QUICK[4:]))
        assert done.exit_code == 0
        assert "ticket" in done.stdout


def test_the_export_commands_and_the_python_after_them_run(place, capsys):
    plain, quantised = lines("export")
    assert run(plain).exit_code == 0
    assert {path.name for path in (place / "tickets" / "my-super-onnx").iterdir()} >= {
        "model.onnx",
        "export.json",
    }
    done = run(quantised)
    assert done.exit_code == 0
    assert (place / "tickets" / "my-super-onnx" / "model_int8.onnx").is_file()
    measure, answer = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(measure.replace("(1, 8)", "(1, 2)"), {})
    exec(answer, {})
    printed = capsys.readouterr().out
    assert len(re.findall(r"batch \d × 32: ratio \d", printed)) == 2
    assert re.search(r"\[[01] [01]\]", printed)


def test_the_numbers_on_the_page_are_those_of_the_code():
    from tombola.deploy.interleaving import FEWEST_FOR_BOOTSTRAP
    from tombola.deploy.latency import BATCHES, LENGTHS, REPEATS, WARM_UP
    from tombola.deploy.onnx_export import CASES, LARGEST_FILE, OPSET, OPSETS, TOLERANCE

    assert (BATCHES, LENGTHS) == ((1, 8, 32), (32, 128))
    assert "batch 1, 8 and 32 × length 32 and 128" in PAGE
    assert (REPEATS, WARM_UP) == (20, 3)
    assert FEWEST_FOR_BOOTSTRAP <= REPEATS
    assert (OPSET, OPSETS.start, OPSETS.stop - 1) == (20, 18, 23)
    assert (len(CASES), TOLERANCE, LARGEST_FILE) == (6, 1e-4, 1_800_000_000)
