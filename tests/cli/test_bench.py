"""``tombola bench``: what it prints and refuses; times themselves are nobody's expectation here."""

from __future__ import annotations

import json

import pytest
from tests.deploy.cases import structured_folder, unstructured_folder
from tests.tiny import tiny_bert_folder, tiny_folder
from typer.testing import CliRunner

from tombola.cli.app import app
from tombola.errors import UnsupportedModel, UsageError

QUICK = ("--repeats", "2", "--threads", "1", "--device", "cpu")


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments), *QUICK], catch_exceptions=False)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny_bert_folder(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def super_ticket(base):
    return structured_folder(base, base.parent / "super")


def test_the_full_model_stands_beside_the_ticket_in_every_cell(super_ticket):
    done = bench(super_ticket, "--batch", 1, "--batch", 2, "--length", 4, "--length", 8)
    assert done.exit_code == 0
    assert "super: TombolaBertForSequenceClassification, heads 1/4, FFN 1/2" in done.stdout
    for column in ("full, ms", "ticket, ms", "ticket ÷ full", "full, examples/s"):
        assert column in done.stdout
    for told in ("cpu (", "1 thread", "fp32", "torch 2.", "transformers 5.", "interleaved"):
        assert told in done.stdout
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows == [["1", "4"], ["2", "4"], ["1", "8"], ["2", "8"]]
    assert "dense kernels" not in done.stdout
    assert "batch 2 × 8 measured" in done.stderr


def test_json_is_one_document_with_every_second(super_ticket):
    done = bench(super_ticket, "--batch", 3, "--length", 4, "--json")
    told = json.loads(done.stdout)
    table = told["runtimes"]["torch"]
    assert told["note"] is None
    assert (table["names"], table["repeats"]) == (["full", "ticket"], 2)
    (cell,) = table["cells"]
    assert (cell["batch"], cell["length"]) == (3, 4)
    assert len(cell["models"]["ticket"]["seconds"]) == 2
    assert cell["models"]["full"]["median"] > 0
    assert table["surroundings"]["threads"] == 1


def test_an_unstructured_ticket_is_measured_and_told_what_to_expect(base, tmp_path):
    folder = unstructured_folder(base, tmp_path / "weights")
    arguments = (folder, "--model", base, "--batch", 1, "--length", 4)
    done = bench(*arguments)
    assert "do not make dense kernels faster" in done.stdout
    assert "ticket ÷ full" in done.stdout
    assert "do not make dense" in json.loads(bench(*arguments, "--json").stdout)["note"]


def test_a_plain_model_alone_and_against_another(base, tmp_path):
    small = tiny_folder(tmp_path / "one-layer", "bert", num_hidden_layers=1)
    alone = bench(small, "--batch", 1, "--length", 4)
    assert "model, ms" in alone.stdout
    assert "÷" not in alone.stdout
    assert "model ÷ against" in bench(small, "--against", base, "--batch", 1, "--length", 4).stdout


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--batch", "0"), "a batch of 0 is none"),
        (("--length", "65"), "positions for 64 tokens, not for 65"),
        (("--length", "0"), "a length of 0"),
        (("--runtime", "tensorrt"), "no runtime 'tensorrt'"),
        (("--runtime", "onnxruntime", "--precision", "bf16"), "onnxruntime is measured on the CPU in fp32"),
    ],
)
def test_what_cannot_be_meant_is_refused(super_ticket, arguments, what):
    with pytest.raises(UsageError, match=what):
        bench(super_ticket, *arguments)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        bench(tmp_path / "nowhere")
    with pytest.raises(UnsupportedModel, match=r"no config\.json"):
        bench(tmp_path)


@pytest.mark.slow
def test_onnxruntime_is_a_table_of_its_own(super_ticket):
    done = bench(
        super_ticket, "--batch", 1, "--length", 4, "--runtime", "torch", "--runtime", "onnxruntime", "--json"
    )
    tables = json.loads(done.stdout)["runtimes"]
    assert list(tables) == ["onnxruntime", "torch"]
    assert "onnxruntime" in tables["onnxruntime"]["surroundings"]["versions"]
    assert tables["onnxruntime"]["names"] == ["full", "ticket"]
