"""The ONNX file: free batch and length, torch's answers, nothing of the machine in it; refused where it is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from tests.deploy.cases import HEADLESS
from tests.tiny import tiny_folder

from tombola.deploy import onnx_export
from tombola.deploy.inputs import Inputs, inputs_of
from tombola.deploy.onnx_export import CASES, TOLERANCE, compare, to_onnx
from tombola.deploy.onnx_session import OnnxModel, require_onnx
from tombola.deploy.subject import open_subject, tokenizer_of
from tombola.errors import UnsupportedModel, UsageError
from tombola.models.deployed import smaller

TEXTS = ["a good film", "dull and too long , without a plot or a scene that i would watch again"]


def test_onnxruntime_answers_as_the_loaded_ticket_does_on_sentences(super_ticket, exported):
    subject = open_subject(super_ticket)
    given = tokenizer_of(subject)(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = subject.model(**given).logits.numpy()
    (logits,) = OnnxModel(exported.folder / "model.onnx")(given)
    assert np.abs(expected[0] - expected[1]).max() > 1e-2, "the sentences must differ, or nothing is compared"
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_a_sentence_alone_and_one_in_a_padded_batch_have_the_same_answer(super_ticket, exported):
    tokenizer = tokenizer_of(open_subject(super_ticket))
    session = OnnxModel(exported.folder / "model.onnx")
    (together,) = session(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    (alone,) = session(tokenizer(TEXTS[:1], return_tensors="pt"))
    np.testing.assert_allclose(together[:1], alone, atol=1e-5)


def test_the_file_says_its_opset_inputs_and_free_axes(exported):
    import onnx

    model = onnx.load(exported.folder / "model.onnx")
    onnx.checker.check_model(model)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 20)]
    for given in model.graph.input:
        assert [axis.dim_param for axis in given.type.tensor_type.shape.dim] == ["batch", "length"]
    assert [given.name for given in model.graph.input] == list(exported.written.inputs)
    assert [answer.name for answer in model.graph.output] == ["logits"]


def test_nothing_is_left_of_removed_parts_and_of_the_machine(exported):
    import onnx

    content = (exported.folder / "model.onnx").read_bytes()
    assert b"stack_trace" not in content
    assert b".py" not in content
    graph = onnx.load(exported.folder / "model.onnx").graph
    assert all(0 not in weight.dims for weight in graph.initializer)
    # One layer has no attention: one softmax is left. The other has no FFN: one activation.
    kinds = [node.op_type for node in graph.node]
    assert (kinds.count("Softmax"), kinds.count("Gelu")) == (1, 1)


def test_every_kind_of_batch_was_compared(exported):
    cases = exported.written.cases
    assert [(case.batch, case.padded) for case in cases] == [(batch, padded) for batch, _, padded in CASES]
    assert max(case.length for case in cases) == 64, "as long as the model allows"
    assert all(case.largest > 1e-2 for case in cases)
    assert exported.written.difference < TOLERANCE


def test_other_answers_are_refused_and_a_number_that_is_none_too(monkeypatch, tmp_path):
    class Model(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config, self.weight = config, torch.nn.Parameter(torch.ones(2))

        def forward(self, input_ids):
            return {"logits": input_ids[:, :1] * self.weight}

    class Wrong:
        def __init__(self, off):
            self.off = off

        def __call__(self, batch):
            return [(batch["input_ids"][:, :1] * torch.ones(2) * (1 + self.off)).numpy()]

    monkeypatch.setattr(onnx_export, "_write", lambda *arguments: None)
    reads = Inputs(("input_ids",), vocabulary=10)
    for off, refused in ((0.0, False), (0.9e-4, False), (1.2e-4, True), (float("nan"), True)):
        monkeypatch.setattr(onnx_export, "OnnxModel", lambda path, off=off: Wrong(off))
        if not refused:
            assert to_onnx(Model(None), tmp_path / "m.onnx", reads).difference == pytest.approx(
                9 * off, rel=0.2
            )
            continue
        with pytest.raises(UnsupportedModel, match="answers differ from torch's"):
            to_onnx(Model(None), tmp_path / "m.onnx", reads)


def test_an_opset_that_was_never_tried_is_refused(tmp_path):
    for opset in (17, 24):
        with pytest.raises(UsageError, match=f"opset {opset} cannot be written"):
            to_onnx(torch.nn.Linear(1, 1), tmp_path / "m.onnx", Inputs(("input_ids",)), opset=opset)


def test_without_the_extra_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setattr(
        "tombola.deploy.onnx_session.find_spec", lambda name: None if name == "onnxruntime" else name
    )
    with pytest.raises(UsageError, match="onnxruntime is not installed") as told:
        require_onnx()
    assert told.value.todo == 'pip install "tombola[onnx]"'


def test_what_export_json_says_is_true_of_the_folder(exported):
    from tombola.files import sha256_of

    described = json.loads((exported.folder / "export.json").read_text())
    assert described == exported.described
    assert set(described["files"]) == {path.name for path in exported.folder.iterdir()} - {"export.json"}
    for name, entry in described["files"].items():
        path = exported.folder / name
        assert entry == {"size": path.stat().st_size, "sha256": sha256_of(path)}
    assert {"model.onnx", "config.json", "tokenizer.json"} <= set(described["files"])
    assert described["opset"] == 20
    assert described["axes"]["input_ids"] == {"0": "batch", "1": "length"}
    assert described["checked"]["largest_difference"] == exported.written.difference
    assert {"torch", "onnx", "onnxruntime"} <= set(described["versions"])
    assert "/" not in json.dumps(described), "no paths"


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23])
def test_the_ends_of_the_range_of_opsets_work(super_ticket, tmp_path, opset):
    model = open_subject(super_ticket).model
    assert to_onnx(model, tmp_path / "m.onnx", inputs_of(model), opset=opset).opset == opset


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", ["distilbert", "roberta", "electra", "gpt2", "deberta-v2", "modernbert", "vit"]
)
def test_other_families_answer_alike_too(tmp_path, family):
    head = "AutoModelForImageClassification" if family == "vit" else "AutoModelForSequenceClassification"
    folder = tiny_folder(
        tmp_path / family, family, head=head, **({"pad_token_id": 0} if family == "gpt2" else {})
    )
    model = smaller(getattr(transformers, head).from_pretrained(folder).eval(), HEADLESS)
    written = to_onnx(model, tmp_path / "m.onnx", inputs_of(model))
    assert written.difference < TOLERANCE
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.01)
    answers = onnx_export._Answers(model, written.inputs, written.outputs)
    moved = compare(answers, OnnxModel(tmp_path / "m.onnx"), inputs_of(model))
    assert max(case.difference for case in moved) > TOLERANCE, "the comparison sees a difference"
