"""``tombola export``: one real export with int8, as the command makes it; and everything that is refused before."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.deploy.cases import structured_folder, unstructured_folder
from tests.tiny import tiny_bert_folder
from typer.testing import CliRunner

from tombola.cli.app import app
from tombola.errors import UsageError


def export(*arguments):
    return CliRunner().invoke(app, ["export", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny_bert_folder(tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def super_ticket(base):
    return structured_folder(base, base.parent / "super")


def test_a_ticket_becomes_two_onnx_files_whose_accuracy_was_measured(super_ticket, sentences):
    arguments = ("--to", "onnx", "--quantize", "int8", "--threads", 1)
    done = export(super_ticket, *arguments, "--data", sentences, "--text", "text", "--label", "label")
    folder = super_ticket.with_name("super-onnx")
    described = json.loads((folder / "export.json").read_text())
    quantised = described["quantised"]

    from tombola.deploy.onnx_session import OnnxModel
    from tombola.deploy.quantisation import Scoring
    from tombola.deploy.subject import open_subject, tokenizer_of
    from tombola.tasks.task import DataOptions, load_task

    data = load_task(None, DataOptions(data=sentences, text="text", label="label"))
    scoring = Scoring.of(data, tokenizer_of(open_subject(super_ticket)), 16)
    for name, told in (("model.onnx", "before"), ("model_int8.onnx", "after")):
        assert scoring(OnnxModel(folder / name)) == quantised[told]
    assert quantised["examples"] == 20
    assert quantised["bytes_after"] < quantised["bytes_before"] == (folder / "model.onnx").stat().st_size
    assert described["origin"]["kind"] == "ticket"

    reads = tokenizer_of(open_subject(super_ticket))(["a good film"], return_tensors="pt")
    one, other = (OnnxModel(folder / name)(reads)[0] for name in ("model.onnx", "model_int8.onnx"))
    assert 0 < np.abs(one - other).max() < 0.5, "int8 answers nearly, not exactly, the same"

    for line in ("opset 20, free axes: batch, length", "differ by", "fp32", "int8", f"saved in {folder}"):
        assert line in done.stdout
    with pytest.raises(UsageError, match="something at the export's place"):
        export(super_ticket, "--to", "onnx")


@pytest.mark.parametrize(
    ("arguments", "what", "todo"),
    [
        (("--to", "tflite"), "no format 'tflite'", "onnx"),
        (("--to", "onnx", "--quantize", "int4"), "no quantisation 'int4'", "int8"),
        (("--to", "onnx", "--quantize", "int8"), "nothing says which data", "--data FILE"),
        (("--to", "onnx", "--opset", "9"), "opset 9 cannot be written", "18 to 23"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_leaves_nothing(super_ticket, tmp_path, arguments, what, todo):
    with pytest.raises(UsageError, match=what) as told:
        export(super_ticket, *arguments, "--out", tmp_path / "out")
    assert todo in told.value.todo
    assert list(tmp_path.iterdir()) == []


def test_a_ticket_without_its_model_cannot_be_exported(base, tmp_path):
    folder = unstructured_folder(base, tmp_path / "weights")
    with pytest.raises(UsageError, match="no trained model"):
        export(folder, "--to", "onnx", "--out", tmp_path / "out")
    with pytest.raises(UsageError, match="no such folder"):
        export(tmp_path / "nowhere", "--to", "onnx")


def test_a_place_that_is_taken_is_refused_before_any_work(super_ticket, tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr("tombola.deploy.subject.open_subject", lambda *_, **__: pytest.fail("work began"))
    for force in ((), ("--force",)):
        with pytest.raises(UsageError, match="export's place"):
            export(super_ticket, "--to", "onnx", "--out", tmp_path, *force)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_without_the_extra_the_way_to_it_is_told(super_ticket, monkeypatch, tmp_path):
    monkeypatch.setattr("tombola.deploy.onnx_session.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed") as told:
        export(super_ticket, "--to", "onnx", "--out", tmp_path / "out")
    assert 'pip install "tombola[onnx]"' in told.value.todo
