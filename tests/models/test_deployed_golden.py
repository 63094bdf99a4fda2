"""Folders that the first version wrote go on loading, and giving the same answers.

``tests/data/golden_deployed_v1`` was written by ``write_golden`` below; it is never written again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tests.tiny import random_model

import tombola
from tombola.masks.structure_mask import StructureMask
from tombola.models.deployed import smaller

GOLDEN = Path(__file__).parents[1] / "data" / "golden_deployed_v1"
YES, NO = True, False
#: A head and the FFN are gone, three heads are gone, all heads are gone.
CUT = StructureMask(((YES, YES, NO, YES), (NO, NO, YES, NO), (NO, NO, NO, NO)), (NO, YES, YES))
CLASSES = {
    "bert": "BertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
    "gpt2": "GPT2ForSequenceClassification",
}
BATCH = {
    "input_ids": [[2, 11, 29, 17, 5, 3], [2, 40, 3, 0, 0, 0]],
    "attention_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]],
}


def golden_model(family: str) -> Any:
    layers = {"bert": "num_hidden_layers", "distilbert": "n_layers", "gpt2": "n_layer"}[family]
    positions = "n_positions" if family == "gpt2" else "max_position_embeddings"
    tokens = {"bos_token_id": 2, "eos_token_id": 3} if family == "gpt2" else {}
    model = random_model(
        CLASSES[family],
        family,
        attention="sdpa",
        seed=11,
        **{layers: 3, positions: 16, "vocab_size": 48, "num_labels": 3, **tokens},
    )
    return smaller(model, CUT)


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(**{name: torch.tensor(rows) for name, rows in BATCH.items()}).logits


def write_golden(folder: Path) -> None:
    expected = {}
    for family in CLASSES:
        model = golden_model(family)
        model.save_pretrained(folder / family)
        expected[family] = [[round(value, 6) for value in row] for row in logits(model).tolist()]
    (folder / "expected.json").write_text(json.dumps({"batch": BATCH, "logits": expected}, indent=1) + "\n")


@pytest.mark.parametrize("family", CLASSES)
def test_the_answers_are_those_of_the_first_version(family: str):
    told = json.loads((GOLDEN / "expected.json").read_text())
    assert told["batch"] == BATCH
    model = tombola.load(GOLDEN / family)
    assert type(model).__name__ == f"Tombola{CLASSES[family]}"
    assert model.config.structure == CUT
    assert torch.allclose(logits(model), torch.tensor(told["logits"][family]), atol=1e-4)


@pytest.mark.parametrize("family", CLASSES)
def test_what_is_written_today_is_what_was_written_then(family: str, tmp_path: Path):
    """Whoever changes the format makes it format 2, and adds golden folders of it beside these."""
    golden_model(family).save_pretrained(tmp_path)
    now, then = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path, GOLDEN / family))
    assert now.pop("transformers_version")
    assert then.pop("transformers_version")
    ours = ("tombola", "layer_sizes", "attention_head_size", "model_type", "architectures")
    assert {name: now[name] for name in ours} == {name: then[name] for name in ours}
    assert set(then) <= set(now)
    with (
        safe_open(tmp_path / "model.safetensors", framework="pt") as new,
        safe_open(GOLDEN / family / "model.safetensors", framework="pt") as old,
    ):
        assert set(new.keys()) == set(old.keys())


def test_they_are_small():
    for family in CLASSES:
        assert sum(path.stat().st_size for path in (GOLDEN / family).iterdir()) < 50_000
