"""Physically smaller models as transformers models: made, saved, loaded, in every class of every family."""

import json
import pickle
from pathlib import Path

import pytest
import torch
import transformers
from tests.tiny import random_batch, random_model
from torch import nn

from tombola.errors import CorruptArtifact, MaskMismatch, UnsupportedModel
from tombola.masks.structure_mask import StructureMask
from tombola.models import deployed
from tombola.models.anatomy import anatomy_of, backbone_parameters
from tombola.models.deployed import is_smaller, smaller
from tombola.models.deployed_classes import classes_of
from tombola.models.deployed_config import ELSEWHERE
from tombola.models.deployed_loading import load
from tombola.models.families import FAMILIES
from tombola.models.gating import gated
from tombola.models.surgery import shrink

YES, NO = True, False
#: Two heads and no FFN in the first layer, no head at all in the second.
CUT = StructureMask(((YES, NO, NO, YES), (NO, NO, NO, NO)), (NO, YES))


def bert(class_name: str = "BertForSequenceClassification", **config):
    return random_model(class_name, "bert", attention="sdpa", **config)


def answer(model: nn.Module, family: str = "bert") -> torch.Tensor:
    """The first output of any class, for a batch that fits it."""
    batch, name = random_batch(family), type(model).__name__
    if "MultipleChoice" in name:
        batch = {key: value[None] for key, value in batch.items()}
    if "MaskedImage" in name:
        batch["bool_masked_pos"] = torch.zeros(3, 4, dtype=torch.bool)
    with torch.no_grad():
        return model(**batch)[0]


def saved(model, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_of_a_family_comes_back_as_it_was(family: str, tmp_path: Path):
    deployed.register()
    classes = {made: auto for auto, several in classes_of(family).items() for made in several}
    assert len(classes) >= 3
    for made, auto in classes.items():
        extra = {"encoder_stride": 4} if family == "vit" else {}
        model = random_model(made.full_class.__name__, family, attention="eager", **extra)
        small = smaller(model, CUT)
        assert type(small) is made
        with gated(model, CUT):
            assert torch.allclose(answer(small, family), answer(model, family), atol=1e-5), made
        folder = saved(small, tmp_path / made.__name__)
        transformers.PreTrainedConfig.from_json_file(
            folder / "config.json"
        )  # as Trainer reads it when it resumes
        for loaded in (load(folder), auto.from_pretrained(folder)):
            assert type(loaded) is made
            assert same_weights(loaded, small), made
            assert torch.allclose(answer(loaded, family), answer(small, family), atol=1e-6), made


def test_nothing_is_random_in_the_copy_and_nothing_of_the_model_changes():
    model = bert()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    config, state = model.config.to_dict(), torch.random.get_rng_state()
    small = smaller(model, CUT)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert type(model) is transformers.BertForSequenceClassification
    assert model.config.to_dict() == config
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    with torch.no_grad():
        for weight in small.parameters():
            weight.zero_()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(getattr(module, "config", config) is not small.config for module in model.modules())
    assert all(getattr(module, "config", small.config) is small.config for module in small.modules())


def test_modes_and_labels_are_the_models_own(tmp_path: Path):
    model = bert(
        id2label={0: "no", 1: "perhaps", 2: "yes"},
        label2id={"no": 0, "perhaps": 1, "yes": 2},
        problem_type="single_label_classification",
    )
    model.train().to(torch.bfloat16)
    model.classifier.eval()
    model.bert.embeddings.requires_grad_(False)
    small = smaller(model, CUT)
    assert small.training
    assert not small.classifier.training
    assert small.dtype == torch.bfloat16
    assert small.config._attn_implementation == "sdpa"
    assert not small.bert.embeddings.word_embeddings.weight.requires_grad
    assert small.bert.encoder.layer[0].attention.self.query.weight.requires_grad
    loaded = load(saved(small, tmp_path / "small"))
    assert loaded.dtype == torch.bfloat16
    assert not loaded.training  # as transformers loads every model
    assert loaded.config.id2label == {0: "no", 1: "perhaps", 2: "yes"}
    assert loaded.config.num_labels == 3
    assert loaded.config.problem_type == "single_label_classification"
    assert (
        smaller(random_model("BertModel", "bert", attention="eager"), CUT).config._attn_implementation
        == "eager"
    )


def test_what_the_configuration_says(tmp_path: Path):
    folder = saved(smaller(bert(), CUT), tmp_path / "small")
    said = json.loads((folder / "config.json").read_text())
    assert said["model_type"] == "tombola_bert"
    assert said["architectures"] == ["TombolaBertForSequenceClassification"]
    assert said["num_attention_heads"] == said["intermediate_size"] == ELSEWHERE
    assert said["attention_head_size"] == 4
    assert said["layer_sizes"] == [
        {"num_attention_heads": 2, "intermediate_size": 0},
        {"num_attention_heads": 0, "intermediate_size": 32},
    ]
    assert said["tombola"] == {
        "format": 1,
        "base_model_type": "bert",
        "load_with": "tombola.load",
        "full": {"num_attention_heads": 4, "intermediate_size": 32},
        "structure": CUT.to_json(),
    }
    assert "auto_map" not in said
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("family", "names"),
    [("distilbert", ("n_heads", "hidden_dim")), ("gpt2", ("n_head", "n_inner"))],
)
def test_other_families_say_it_under_their_own_names(family: str, names: tuple[str, str], tmp_path: Path):
    class_name = {"distilbert": "DistilBertModel", "gpt2": "GPT2Model"}[family]
    said = json.loads(
        (saved(smaller(random_model(class_name, family), CUT), tmp_path) / "config.json").read_text()
    )
    assert [said[name] for name in names] == [ELSEWHERE, ELSEWHERE]
    assert said["attention_head_size"] == 4
    assert said["tombola"]["full"] == {"num_attention_heads": 4, "intermediate_size": 32}


def test_gpt2_may_leave_the_width_of_its_ffns_open(tmp_path: Path):
    small = smaller(random_model("GPT2Model", "gpt2", n_inner=None), CUT)
    said = json.loads((saved(small, tmp_path / "small") / "config.json").read_text())
    assert said["tombola"]["full"]["intermediate_size"] is None
    assert [layer["intermediate_size"] for layer in said["layer_sizes"]] == [0, 64]
    assert same_weights(load(tmp_path / "small"), small)


def test_the_rest_of_tombola_understands_it(tmp_path: Path):
    small = load(saved(smaller(bert(), CUT), tmp_path / "small"))
    anatomy = anatomy_of(small)
    assert anatomy.family == "bert"
    assert anatomy.structure == small.config.structure == CUT
    assert [layer.heads for layer in anatomy.layers] == [2, 0]
    assert "encoder.layer.1.output.dense.weight" in anatomy.prunable_names
    assert "encoder.layer.0.output.dense.weight" not in anatomy.prunable_names
    assert set(backbone_parameters(small)) <= set(backbone_parameters(bert()))
    assert is_smaller(small)
    assert is_smaller(nn.DataParallel(small))
    assert not is_smaller(bert())


def test_saving_what_was_loaded_writes_the_same_bytes(tmp_path: Path):
    first = saved(smaller(bert(), CUT), tmp_path / "first")
    second = saved(load(first), tmp_path / "second")
    third = saved(load(second), tmp_path / "third")
    for name in ("config.json", "model.safetensors"):
        assert (first / name).read_bytes() == (second / name).read_bytes() == (third / name).read_bytes()


def test_a_model_in_several_files_loads(tmp_path: Path):
    small = smaller(bert(), CUT)
    small.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert same_weights(load(tmp_path), small)


def test_what_was_cut_may_be_cut_further():
    less = StructureMask(((YES, NO, NO, NO), (NO, NO, NO, NO)), (NO, YES))
    model = bert()
    twice, once = smaller(smaller(model, CUT), less), smaller(model, less)
    assert type(twice) is type(once)
    assert twice.config.to_dict() == once.config.to_dict()
    assert same_weights(twice, once)
    with pytest.raises(MaskMismatch, match="no longer has"):
        smaller(once, CUT)


def test_a_model_that_was_cut_in_place_becomes_one_that_can_be_saved(tmp_path: Path):
    model = bert()
    expected = smaller(model, CUT)
    shrink(model, CUT)
    small = smaller(model, CUT)
    assert same_weights(small, expected)
    assert same_weights(load(saved(small, tmp_path / "small")), expected)


def test_a_mask_that_removes_nothing_still_gives_a_model_that_loads(tmp_path: Path):
    model = bert()
    small = smaller(model, StructureMask.full((4, 4)))
    assert same_weights(small, model)
    assert same_weights(load(saved(small, tmp_path / "small")), model)


def test_masks_of_other_models_are_refused():
    with pytest.raises(MaskMismatch, match="3 layers, the model has 2"):
        smaller(bert(), StructureMask.full((4, 4, 4)))
    with pytest.raises(MaskMismatch, match="2 heads in a layer that has 4"):
        smaller(bert(), StructureMask.full((2, 4)))
    with pytest.raises(MaskMismatch, match="removes all"):
        smaller(bert(), ~StructureMask.full((4, 4)))


class Own(transformers.BertForSequenceClassification):
    """A user's own class: nobody else has its code."""


def test_classes_that_nobody_else_has_are_refused():
    with pytest.raises(UnsupportedModel, match="TombolaOwn"):
        smaller(Own(bert().config), CUT)
    with pytest.raises(UnsupportedModel, match="albert"):
        smaller(
            transformers.AlbertModel(transformers.AlbertConfig(hidden_size=64, num_attention_heads=2)), CUT
        )


def test_objects_travel_between_processes():
    small = smaller(bert(), CUT)
    other = pickle.loads(pickle.dumps(small))
    assert type(other) is type(small)
    assert same_weights(other, small)
    assert pickle.loads(pickle.dumps(small.config)).structure == CUT
    assert deployed.TombolaBertConfig is type(small.config)
    with pytest.raises(AttributeError, match="TombolaNothing"):
        _ = deployed.TombolaNothing


def test_another_head_is_put_on_as_transformers_does_it(tmp_path: Path):
    folder = saved(smaller(bert("BertForMaskedLM"), CUT), tmp_path / "small")
    mlm = load(folder)
    classifier = transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=5)
    assert type(classifier).__name__ == "TombolaBertForSequenceClassification"
    assert classifier.classifier.out_features == 5
    theirs = backbone_parameters(classifier)
    for name, weight in backbone_parameters(mlm).items():
        assert torch.equal(weight, theirs[name]), name


@pytest.mark.parametrize("options", [{}, {"ignore_mismatched_sizes": True}])
@pytest.mark.parametrize("change", ["lost", "other size", "too many"])
def test_auto_classes_refuse_layers_that_the_file_has_not(change: str, options: dict, tmp_path: Path):
    from safetensors.torch import load_file, save_file

    folder = saved(smaller(bert(), CUT), tmp_path / "small")
    weights, name = load_file(folder / "model.safetensors"), "bert.encoder.layer.1.intermediate.dense.bias"
    if change == "lost":
        del weights[name]
    elif change == "other size":
        weights[name] = torch.zeros(31)
    else:
        weights["bert.encoder.layer.0.output.dense.bias"] = torch.zeros(16)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises((CorruptArtifact, RuntimeError)):
        transformers.AutoModelForSequenceClassification.from_pretrained(folder, **options)
    with pytest.raises(CorruptArtifact, match=r"encoder\.layer\.[01]"):
        load(folder)


def test_loading_information_is_given_where_it_is_asked_for(tmp_path: Path):
    folder = saved(smaller(bert(), CUT), tmp_path / "small")
    model, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, output_loading_info=True
    )
    assert type(model).__name__ == "TombolaBertForSequenceClassification"
    assert not info["missing_keys"]
