"""An export's folder: at once or not at all, replaced by force only, and never more than an export."""

from __future__ import annotations

import json

import pytest
from tests.deploy.cases import full_model

from tombola.deploy import onnx_folder
from tombola.deploy.onnx_export import Case, Written
from tombola.deploy.onnx_folder import export_onnx
from tombola.errors import UnsupportedModel, UsageError


@pytest.fixture
def written(monkeypatch):
    """The exporter's place: it writes what it is told here, without torch's seconds."""
    content = [b"one"]

    def to_onnx(model, path, inputs, *, opset):
        path.write_bytes(content[0])
        if content[0] == b"wrong":
            raise UnsupportedModel("answers differ")
        axes = {name: {0: "batch", 1: "length"} for name in inputs.names}
        return Written(opset, inputs.names, ("logits",), axes, (Case(1, 1, False, 1e-7, 2.0),))

    monkeypatch.setattr(onnx_folder, "to_onnx", to_onnx)
    return content


def test_what_is_there_is_only_replaced_by_force(tiny_bert, tmp_path, written):
    model, folder = full_model(tiny_bert), tmp_path / "out"
    export_onnx(model, folder)
    written[0] = b"two"
    with pytest.raises(UsageError, match="something at the export's place") as told:
        export_onnx(model, folder)
    assert "--force" in told.value.todo
    assert (folder / "model.onnx").read_bytes() == b"one"
    export_onnx(model, folder, force=True)
    assert (folder / "model.onnx").read_bytes() == b"two"


def test_force_never_deletes_a_strangers_file(tiny_bert, tmp_path, written):
    model, folder = full_model(tiny_bert), tmp_path / "out"
    export_onnx(model, folder)
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"more than an export .*thesis\.txt"):
        export_onnx(model, folder, force=True)
    (folder / "export.json").unlink()
    with pytest.raises(UsageError, match="more than an export"):
        export_onnx(model, folder, force=True)
    assert (folder / "thesis.txt").read_text() == "years of work"


def test_a_file_that_answers_otherwise_leaves_nothing_behind(tiny_bert, tmp_path, written):
    written[0] = b"wrong"
    with pytest.raises(UnsupportedModel, match="answers differ"):
        export_onnx(full_model(tiny_bert), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_replacement_leaves_the_old_export(tiny_bert, tmp_path, written):
    export_onnx(full_model(tiny_bert), tmp_path / "out")
    written[0] = b"wrong"
    with pytest.raises(UnsupportedModel):
        export_onnx(full_model(tiny_bert), tmp_path / "out", force=True)
    assert (tmp_path / "out" / "model.onnx").read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_quantisation_without_data_to_measure_it_on_is_refused(tiny_bert, tmp_path):
    with pytest.raises(UsageError, match="only be measured on a task's development set"):
        export_onnx(full_model(tiny_bert), tmp_path / "out", quantize="int8")
    with pytest.raises(UsageError, match="no quantisation 'int4'"):
        export_onnx(full_model(tiny_bert), tmp_path / "out", quantize="int4")


def test_origin_and_precision_are_told(tiny_bert, tmp_path, written):
    export = export_onnx(
        full_model(tiny_bert), tmp_path / "out", origin={"kind": "ticket", "identity": "a" * 64}
    )
    described = json.loads((tmp_path / "out" / "export.json").read_text())
    assert described["origin"] == {"kind": "ticket", "identity": "a" * 64}
    assert described["precision"] == "fp32"
    assert export.bytes == 3
