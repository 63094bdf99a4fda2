"""docs/deployed-model.md does what it says: its code is run, tiny models standing in for the large ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.tiny import random_model, write_tokenizer

from tombola.masks.structure_mask import StructureMask
from tombola.models.deployed import smaller
from tombola.models.deployed_config import ELSEWHERE
from tombola.models.families import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "deployed-model.md").read_text(encoding="utf-8")
CUT = StructureMask(((True, False, True, True), (False, False, False, False)), (False, True))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_runs(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    smaller(random_model("BertForSequenceClassification", "bert"), CUT).save_pretrained("rte-super")
    write_tokenizer(tmp_path / "rte-super")
    python = blocks("python")
    assert len(python) == 3
    names: dict[str, object] = {}
    for block in python:
        block = block.replace("rte-super/model", "rte-super")  # a ticket's folder has the model inside it
        exec(block.replace("bert-base-uncased", str(tiny_bert)), names)
    printed = capsys.readouterr().out
    assert "TombolaBertForSequenceClassification · 2 layers · heads 3/8 · FFN 1/2" in printed
    assert "'label': 'LABEL_" in printed
    full, small = map(int, re.findall(r"^(\d+) -> (\d+)$", printed, re.MULTILINE)[0])
    # Two layers lose one head of 8 (query, key, value with biases, and output), one its FFN of 32.
    assert full - small == 2 * (4 * 16 * 8 + 3 * 8) + (2 * 16 * 32 + 32 + 16)


def test_the_configuration_shown_is_one_that_is_written(tmp_path: Path) -> None:
    shown = json.loads("{" + blocks("json")[0] + "}")
    smaller(random_model("BertForSequenceClassification", "bert"), CUT).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert shown["num_attention_heads"] == shown["intermediate_size"] == ELSEWHERE
    for name in ("model_type", "architectures", "num_attention_heads", "intermediate_size"):
        assert shown[name] == written[name]
    assert shown["tombola"].keys() == written["tombola"].keys()
    assert shown["layer_sizes"][0].keys() == written["layer_sizes"][0].keys()
    structure = StructureMask.from_json(shown["tombola"]["structure"])
    for layer, sizes in enumerate(shown["layer_sizes"]):
        assert sizes["num_attention_heads"] == len(structure.kept_heads(layer))


def test_every_family_is_named() -> None:
    plain = PAGE.lower().replace("-", "")
    assert all(family.replace("-", "") in plain for family in FAMILIES)
