"""What a stranger's folder may say: everything else is refused before a model of its sizes is built."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.tiny import random_model, tiny_folder

from tombola.errors import CorruptArtifact, TombolaError, UnsupportedModel, UsageError
from tombola.masks.structure_mask import StructureMask
from tombola.models import deployed
from tombola.models.deployed import smaller
from tombola.models.deployed_loading import holds_smaller_model, load

YES, NO = True, False
CUT = StructureMask(((YES, NO, NO, YES), (NO, NO, NO, NO)), (NO, YES))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    smaller(random_model("BertForSequenceClassification", "bert"), CUT).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    settings = json.loads((folder / "config.json").read_text())
    change(settings)
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], object]:
    """Set one value deep inside."""

    def change(settings: Any) -> None:
        for key in path[:-1]:
            settings = settings[key]
        settings[path[-1]] = value

    return change


def without(*path: Any) -> Callable[[dict[str, Any]], object]:
    def change(settings: Any) -> None:
        for key in path[:-1]:
            settings = settings[key]
        del settings[path[-1]]

    return change


FULL, LAYERS, STRUCTURE = ("tombola", "full"), "layer_sizes", ("tombola", "structure")
REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no structure": (without("tombola"), "does not say which heads"),
    "no section": (put("tombola", value=[]), "does not say which heads"),
    "newer": (put("tombola", "format", value=2), "newer tombola"),
    "format no number": (put("tombola", "format", value="1"), "format '1'"),
    "unknown key": (put("tombola", "hook", value="x"), "'hook' means nothing"),
    "missing key": (without("tombola", "load_with"), "'load_with' is missing"),
    "other family": (put("tombola", "base_model_type", value="gpt2"), "made of 'gpt2'"),
    "no heads": (put(*FULL, "num_attention_heads", value=0), "cannot be 0"),
    "fewer than no heads": (put(*FULL, "num_attention_heads", value=-4), "cannot be -4"),
    "half a head": (put(*FULL, "num_attention_heads", value=4.0), "cannot be 4.0"),
    "true heads": (put(*FULL, "num_attention_heads", value=True), "cannot be True"),
    "other heads": (put(*FULL, "num_attention_heads", value=8), "other heads than the full model's 8"),
    "negative FFN": (put(*FULL, "intermediate_size", value=-32), "cannot be -32"),
    "huge FFN": (put(*FULL, "intermediate_size", value=10**12), "cannot be 1000000000000"),
    "no FFN width": (put(*FULL, "intermediate_size", value=None), "settings"),
    "other FFN": (put(*FULL, "intermediate_size", value=64), "layer is said to be"),
    "full is gone": (put(*FULL, value={}), "sizes of the full model are missing"),
    "structure of one layer": (put(*STRUCTURE, "layers", value=[{"heads": "1001", "ffn": True}]), "2 layers"),
    "structure of letters": (put(*STRUCTURE, "layers", 0, "heads", value="1a01"), "digits 0 or 1"),
    "structure of nothing": (
        put(*STRUCTURE, "layers", value=[{"heads": "0000", "ffn": False}] * 2),
        "leaves no part",
    ),
    "more layers": (put("num_hidden_layers", value=3), "3 layers, its structure is about 2"),
    "billions of layers": (put("num_hidden_layers", value=10**9), "no model has a num_hidden_layers"),
    "no layers": (put("num_hidden_layers", value=0), "0 layers"),
    "negative width": (put("hidden_size", value=-16), "settings|no model"),
    "width of nothing": (put("hidden_size", value=0), "settings|no model"),
    "huge width": (put("hidden_size", value=10**10), "no model has a hidden_size"),
    "width a text": (put("hidden_size", value="16"), "settings"),
    "negative words": (put("vocab_size", value=-5), "settings"),
    "other words": (put("vocab_size", value=312), "word_embeddings.weight"),
    "other head size": (put("attention_head_size", value=8), "attention_head_size is 8, not 4"),
    "no head size": (without("attention_head_size"), "attention_head_size is None"),
    "per layer gone": (without(LAYERS), "sizes of the 2 layers are missing"),
    "per layer as transformers means it": (put(LAYERS, value={"0": {}}), "sizes of the 2 layers are missing"),
    "per layer too short": (put(LAYERS, value=[{}]), "sizes of the 2 layers are missing"),
    "per layer skips": (put(LAYERS, 0, "skip", value=["attention"]), "layer is said to be"),
    "per layer disagrees": (put(LAYERS, 1, "num_attention_heads", value=1), "layer is said to be"),
    "both kinds of layers": (put("per_layer_config", value={"0": {}}), "not in per_layer_config"),
    "code": (put("auto_map", value={"AutoModel": "evil.Model"}), "code of its own"),
    "no class": (without("architectures"), "which class"),
    "two classes": (put("architectures", value=["A", "B"]), "which class"),
    "class of another family": (put("architectures", value=["TombolaGPT2Model"]), "no class of bert"),
    "class of another head": (
        put("architectures", value=["TombolaBertForMaskedLM"]),
        "a weight is absent|its configuration makes it absent",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_configuration_that_cannot_be_meant_is_refused(name: str, folder: Path):
    change, reason = REFUSED[name]
    with pytest.raises(CorruptArtifact, match=reason) as told:
        load(changed(folder, change))
    assert str(folder) in told.value.where
    assert told.value.what


AUTO_SEES = [
    name for name in REFUSED if name not in ("code", "no class", "two classes", "class of another head")
]


@pytest.mark.parametrize("name", [n for n in AUTO_SEES if "class" not in n and n != "other words"])
def test_auto_classes_refuse_it_too(name: str, folder: Path):
    deployed.register()
    with pytest.raises(Exception):  # noqa: B017, PT011 - TombolaError, or transformers' own kinds
        transformers.AutoModel.from_pretrained(changed(folder, REFUSED[name][0]))


@pytest.mark.parametrize("named", ["BertForSequenceClassification", "TombolaOwn", "os.system", "../x"])
def test_classes_that_do_not_exist_are_refused(named: str, folder: Path):
    with pytest.raises(UnsupportedModel, match="no class that tombola makes"):
        load(changed(folder, put("architectures", value=[named])))


def test_families_of_a_newer_tombola_are_named(folder: Path):
    with pytest.raises(UnsupportedModel, match="'mamba' are not known"):
        load(changed(folder, put("model_type", value="tombola_mamba")))


def test_a_plain_model_is_not_ours(tmp_path: Path):
    plain = tiny_folder(tmp_path / "plain")
    assert not holds_smaller_model(plain)
    with pytest.raises(UsageError, match="no model that tombola made smaller") as told:
        load(plain)
    assert "transformers" in told.value.todo


def test_a_plain_configuration_has_no_structure():
    config = transformers.BertConfig()
    with pytest.raises(CorruptArtifact, match="does not say which heads"):
        deployed.TombolaBertConfig(**config.to_dict())


def weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    found = load_file(folder / "model.safetensors")
    change(found)
    save_file(found, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def test_heads_that_do_not_fit_the_weights_are_refused(folder: Path):
    with pytest.raises(CorruptArtifact, match="12×16, its configuration makes it 8×16") as told:
        load(weights(folder, put(QUERY, value=torch.zeros(12, 16))))
    assert QUERY in told.value.where


def test_missing_weights_are_refused(folder: Path):
    with pytest.raises(CorruptArtifact, match="absent, its configuration makes it 8×16"):
        load(weights(folder, without(QUERY)))


def test_weights_of_removed_parts_are_refused(folder: Path):
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    with pytest.raises(CorruptArtifact, match="is 32×16, its configuration makes it absent"):
        load(weights(folder, put(name, value=torch.zeros(32, 16))))


def test_a_lost_classifier_is_refused(folder: Path):
    with pytest.raises(CorruptArtifact, match="absent") as told:
        load(weights(folder, without("classifier.weight")))
    assert "classifier.weight" in told.value.where


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 8, b"\x00" * 100, b"\x10\x00\x00\x00\x00\x00\x00\x00not json at all."]
)
def test_damaged_files_are_refused(content: bytes, folder: Path):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CorruptArtifact):
        load(folder)


def test_pickles_are_never_opened(folder: Path):
    found = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(found, folder / "pytorch_model.bin")
    with pytest.raises(CorruptArtifact, match="absent"):
        load(folder)


def test_damaged_configurations_are_refused(folder: Path):
    for text in ("", "{", "[]", "null", '"tombola_bert"'):
        (folder / "config.json").write_text(text)
        with pytest.raises(TombolaError):
            load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(CorruptArtifact, match="missing"):
        load(folder)
