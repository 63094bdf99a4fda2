"""Building a start: θ0 bit for bit, a head of its own stream, and no weight that came from nowhere."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.tiny import SMALL, tiny_bert_folder, tiny_folder

from tombola.errors import CorruptArtifact, MaskMismatch, RecipeError, UnsupportedModel
from tombola.models import checkpoint_weights
from tombola.models.anatomy import anatomy_of, backbone_of, backbone_parameters, head_parameters, snapshot
from tombola.models.build import (
    HeadSpec,
    build_model,
    load_tokenizer,
    pretrained_fingerprint,
    pretrained_state,
)
from tombola.models.fingerprint import fingerprint
from tombola.models.resolve import ModelSource, resolve

TWO = HeadSpec("classification", 2)


@pytest.fixture
def source(tiny_bert) -> ModelSource:
    return resolve(str(tiny_bert))


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A folder per family whose every weight is random, LayerNorm too: nothing looks re-initialised."""
    made = {}
    for family in SMALL:
        folder = tiny_folder(tmp_path_factory.mktemp("family") / family, family, seed=1)
        state = load_file(folder / "model.safetensors")
        noise = torch.Generator().manual_seed(7)
        state = {name: torch.randn(w.shape, generator=noise) for name, w in sorted(state.items())}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        made[family] = folder
    return made


def edited(folder: Path, to: Path, change) -> ModelSource:
    """A copy of a model's folder with its weights changed by ``change(state)``."""
    shutil.copytree(folder, to)
    state = load_file(folder / "model.safetensors")
    state = change(state) or state
    save_file(state, to / "model.safetensors", metadata={"format": "pt"})
    return resolve(str(to))


def without(*names):
    return lambda state: {name: weight for name, weight in state.items() if name not in names}


def same(one, other) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("family", sorted(SMALL))
def test_the_backbone_is_what_transformers_loads(family, folders):
    source = resolve(str(folders[family]))
    model = build_model(source, HeadSpec("classification", 3), head_seed=0)
    reference = transformers.AutoModel.from_pretrained(folders[family])
    weights = backbone_parameters(reference)
    assert all(torch.equal(weight, weights[name]) for name, weight in backbone_parameters(model).items())
    assert set(pretrained_state(source)) == set(weights)
    assert model.training
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    ids = torch.tensor([[2, 9, 14, 20, 3]])
    with torch.no_grad():  # equal outputs: the buffers are right too
        ours = backbone_of(model.eval())(input_ids=ids).last_hidden_state
        assert torch.equal(ours, reference.eval()(input_ids=ids).last_hidden_state)
        assert model(input_ids=ids).logits.shape == (1, 3)


@pytest.mark.parametrize("family", sorted(SMALL))
def test_the_head_depends_on_its_seed_alone(family, folders, tmp_path):
    source = resolve(str(folders[family]))
    other = resolve(str(tiny_folder(tmp_path / "other", family, seed=99)))
    larger = resolve(str(tiny_folder(tmp_path / "larger", family, vocab_size=500)))
    head = snapshot(head_parameters(build_model(source, TWO, head_seed=4)))
    torch.randn(3)
    start = {name: weight + 1 for name, weight in pretrained_state(source).items()}
    variants = [
        build_model(source, TWO, head_seed=4),
        build_model(other, TWO, head_seed=4),
        build_model(larger, TWO, head_seed=4),
        build_model(source, TWO, head_seed=4, start=start),
        build_model(source, TWO, head_seed=4, reinit_seed=8),
        build_model(source, TWO, head_seed=4, attention="eager"),
    ]
    for model in variants:
        assert same(head, snapshot(head_parameters(model)))
    another = head_parameters(build_model(source, TWO, head_seed=5))
    matrices = [name for name, weight in another.items() if weight.dim() == 2]
    assert matrices
    assert not any(torch.equal(head[name], another[name]) for name in matrices)
    for name, weight in head.items():  # as the class initialises it
        if "norm" in name:
            assert torch.equal(weight, torch.ones_like(weight))
            continue
        assert weight.abs().max() < (1 if family == "modernbert" else 0.2)
        assert name.endswith("bias") == (not weight.any())


@pytest.mark.parametrize("reinit_seed", [None, 3])
def test_the_process_s_random_state_is_untouched(source, reinit_seed):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    build_model(source, TWO, head_seed=1, reinit_seed=reinit_seed)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), np.random.get_state()[1].tolist())


@pytest.mark.parametrize("family", sorted(SMALL))
def test_reinit_changes_everything_as_the_class_does(family, folders):
    source = resolve(str(folders[family]))
    given = pretrained_state(source)
    new = snapshot(backbone_parameters(build_model(source, TWO, head_seed=1, reinit_seed=2)))
    for name, weight in new.items():
        assert not torch.equal(weight, given[name]), name
        if name.endswith("bias"):
            assert not weight.any(), name
        elif weight.dim() == 1:  # LayerNorm
            assert torch.equal(weight, torch.ones_like(weight)), name
        else:
            rows = weight[1:] if "word_embeddings" in name else weight
            assert 0.005 < rows.std() < 0.03, name
    again = snapshot(backbone_parameters(build_model(source, TWO, head_seed=9, reinit_seed=2)))
    assert same(new, again)
    third = backbone_parameters(build_model(source, TWO, head_seed=1, reinit_seed=3))
    assert all(not torch.equal(new[n], third[n]) for n in new if new[n].dim() == 2)
    matrices = [weight for weight in new.values() if weight.dim() == 2]
    assert len({float(weight.flatten()[-1]) for weight in matrices}) == len(matrices)


def test_reinit_has_the_padding_row_of_zeros(source):
    model = build_model(source, TWO, head_seed=1, reinit_seed=2)
    assert not backbone_parameters(model)["embeddings.word_embeddings.weight"][0].any()


def test_training_a_built_model_leaves_the_cache_alone(source):
    """Trap 1."""
    before = pretrained_state(source)
    model = build_model(source, TWO, head_seed=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(3):
        optimizer.zero_grad()
        model(input_ids=torch.tensor([[2, 9, 3]]), labels=torch.tensor([1])).loss.backward()
        optimizer.step()
    trained = backbone_parameters(model)
    changed = [name for name in before if not torch.equal(before[name], trained[name])]
    assert "pooler.dense.weight" in changed
    assert "encoder.layer.0.output.dense.weight" in changed
    assert same(before, pretrained_state(source))
    assert same(before, snapshot(backbone_parameters(build_model(source, TWO, head_seed=1))))


def test_a_start_is_copied(source):
    """Trap 1."""
    start = {name: weight * 2 for name, weight in pretrained_state(source).items()}
    kept = {name: weight.clone() for name, weight in start.items()}
    model = build_model(source, TWO, start=start, head_seed=1)
    assert same(kept, snapshot(backbone_parameters(model)))
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert same(kept, start)


def test_a_snapshot_is_the_caller_s_own(source):
    mine = pretrained_state(source)
    for weight in mine.values():
        weight.zero_()
    assert pretrained_state(source)["pooler.dense.weight"].any()


def test_changed_files_are_read_again(tiny_bert, tmp_path):
    source = edited(tiny_bert, tmp_path / "copy", lambda state: None)
    before, print_before = pretrained_state(source), pretrained_fingerprint(source)
    assert print_before == fingerprint(before) == pretrained_fingerprint(resolve(str(tiny_bert)))
    changed = {name: weight + 1 for name, weight in load_file(source.folder / "model.safetensors").items()}
    save_file(changed, source.folder / "model.safetensors", metadata={"format": "pt"})
    assert torch.equal(pretrained_state(source)["pooler.dense.bias"], before["pooler.dense.bias"] + 1)
    assert pretrained_fingerprint(source) != print_before


def test_what_was_read_stays_when_the_file_is_overwritten_in_place(tiny_bert, tmp_path):
    """Files are memory-mapped: θ0 must not follow them."""
    source = edited(tiny_bert, tmp_path / "copy", lambda state: None)
    kept, before = checkpoint_weights.shared_state(source), pretrained_state(source)
    with open(source.folder / "model.safetensors", "r+b") as file:
        file.seek(-1000, 2)
        file.write(b"\x11" * 1000)
    assert same(before, dict(kept))


def test_a_missing_weight_is_never_drawn(tiny_bert, tmp_path):
    name = "encoder.layer.1.output.dense.weight"
    source = edited(tiny_bert, tmp_path / "holed", without(name, "embeddings.LayerNorm.bias"))
    with pytest.raises(UnsupportedModel, match=r"lacks the weight \S+ and 1 more"):
        build_model(source, TWO, head_seed=0)
    source = edited(tiny_bert, tmp_path / "one", without(name))
    with pytest.raises(UnsupportedModel, match=name):
        pretrained_state(source)
    with pytest.raises(UnsupportedModel, match=name):
        build_model(source, TWO, head_seed=0, reinit_seed=1)


def test_a_weight_of_another_shape_is_named(tiny_bert, tmp_path):
    def narrow(state):
        state["encoder.layer.0.intermediate.dense.weight"] = torch.zeros(31, 16)

    source = edited(tiny_bert, tmp_path / "narrow", narrow)
    with pytest.raises(UnsupportedModel, match=r"\(31, 16\)(.|\n)*encoder.layer.0.intermediate.dense.weight"):
        pretrained_state(source)


def test_layers_beyond_the_configuration_are_not_dropped_in_silence(tiny_bert, tmp_path):
    def extra(state):
        state["bert.encoder.layer.2.output.dense.weight"] = torch.zeros(16, 32)

    source = edited(tiny_bert, tmp_path / "deep", extra)
    with pytest.raises(UnsupportedModel, match=r"no place for(.|\n)*encoder.layer.2.output.dense.weight"):
        pretrained_state(source)


def test_quantised_weights_are_refused(tiny_bert, tmp_path):
    def quantise(state):
        state["pooler.dense.weight"] = state["pooler.dense.weight"].to(torch.int8)

    source = edited(tiny_bert, tmp_path / "int8", quantise)
    with pytest.raises(UnsupportedModel, match=r"int8(.|\n)*pooler.dense.weight"):
        pretrained_state(source)


def test_a_damaged_file_is_refused(tiny_bert, tmp_path):
    source = edited(tiny_bert, tmp_path / "cut", lambda state: None)
    weights = source.folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CorruptArtifact, match="safetensors"):
        pretrained_state(source)


def test_a_pooler_that_is_not_there_is_drawn_with_the_head(tmp_path):
    folder = tiny_folder(tmp_path / "mlm", "bert", head="AutoModelForMaskedLM")
    source = resolve(str(folder))
    assert not any(name.startswith(("pooler", "cls")) for name in pretrained_state(source))
    model = build_model(source, TWO, head_seed=1)
    anatomy = anatomy_of(model)
    assert anatomy.drawn == ("pooler.dense.weight", "pooler.dense.bias")
    assert anatomy.optional == ()
    assert len(anatomy.matrices) == 12
    assert "bert.pooler.dense.weight" in head_parameters(model)
    assert fingerprint(backbone_parameters(model)) == pretrained_fingerprint(source)
    with_pooler = build_model(resolve(str(tiny_bert_folder(tmp_path))), TWO, head_seed=1)
    assert anatomy_of(with_pooler).drawn == ()
    assert torch.equal(model.classifier.weight, with_pooler.classifier.weight)
    other = build_model(source, TWO, head_seed=2)
    assert not torch.equal(model.bert.pooler.dense.weight, other.bert.pooler.dense.weight)
    trained = snapshot(backbone_parameters(model))
    assert anatomy_of(build_model(source, TWO, start=trained, head_seed=1)).drawn == anatomy.drawn


def test_a_pooler_the_class_does_not_use_is_left_aside(folders):
    source = resolve(str(folders["roberta"]))
    assert "pooler.dense.weight" in pretrained_state(source)
    model = build_model(source, TWO, head_seed=0)
    assert "pooler.dense.weight" not in backbone_parameters(model)
    assert anatomy_of(model).drawn == ()
    rewound = snapshot(backbone_parameters(model))
    assert same(rewound, snapshot(backbone_parameters(build_model(source, TWO, start=rewound, head_seed=0))))


def test_old_and_wrapped_names_are_understood(tiny_bert, tmp_path):
    def old(state):
        new = {}
        for name, weight in state.items():
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            new[f"module.bert.{name}"] = weight
        assert "module.bert.encoder.layer.1.output.LayerNorm.gamma" in new
        new["module.bert.embeddings.position_ids"] = torch.arange(64)[None]
        new["module.classifier.weight"] = torch.ones(2, 16)
        return new

    source = edited(tiny_bert, tmp_path / "old", old)
    assert same(pretrained_state(source), pretrained_state(resolve(str(tiny_bert))))


def test_gpt2_s_old_buffers_are_no_weights(folders, tmp_path):
    def old(state):
        state["h.0.attn.bias"] = torch.ones(1, 1, 64, 64)
        state["h.1.attn.masked_bias"] = torch.tensor(-1e4)

    source = edited(folders["gpt2"], tmp_path / "old", old)
    assert same(pretrained_state(source), pretrained_state(resolve(str(folders["gpt2"]))))


@pytest.mark.parametrize("head", ["AutoModelForSequenceClassification", "AutoModelForMaskedLM"])
def test_a_fine_tuned_checkpoint_gives_its_backbone_and_a_fresh_head(tmp_path, head):
    folder = tiny_folder(tmp_path / "tuned", "bert", head=head)
    reference = backbone_parameters(getattr(transformers, head).from_pretrained(folder))
    model = build_model(resolve(str(folder)), TWO, head_seed=0)
    assert all(torch.equal(w, reference[n]) for n, w in backbone_parameters(model).items())
    if "Sequence" in head:
        assert not torch.equal(
            model.classifier.weight, load_file(folder / "model.safetensors")["classifier.weight"]
        )


def test_shards_are_one_model(tiny_bert, tmp_path):
    folder = tmp_path / "shards"
    shutil.copytree(tiny_bert, folder)
    (folder / "model.safetensors").unlink()
    transformers.AutoModel.from_pretrained(tiny_bert).save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert same(pretrained_state(resolve(str(folder))), pretrained_state(resolve(str(tiny_bert))))
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    next(folder.glob("model-*.safetensors")).unlink()
    with pytest.raises(CorruptArtifact, match=r"shard \S+ is missing"):
        pretrained_state(resolve(str(folder)))
    index["weight_map"]["pooler.dense.weight"] = "../tiny-bert/model.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CorruptArtifact, match=r"names the shard '\.\./tiny-bert"):
        pretrained_state(resolve(str(folder)))


def test_pickles_are_refused_with_the_reason(tiny_bert, tmp_path):
    folder = tmp_path / "pickled"
    shutil.copytree(tiny_bert, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UnsupportedModel, match=r"pytorch_model.bin; pickles can run (.|\n)*save_pretrained"):
        pretrained_state(resolve(str(folder)))
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(UnsupportedModel, match="no weights in safetensors"):
        build_model(resolve(str(folder)), TWO, head_seed=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(tiny_bert, tmp_path, dtype):
    source = edited(tiny_bert, tmp_path / "half", lambda s: {name: w.to(dtype) for name, w in s.items()})
    config = json.loads((source.folder / "config.json").read_text())
    (source.folder / "config.json").write_text(json.dumps(config | {"dtype": str(dtype).split(".")[1]}))
    full = pretrained_state(resolve(str(tiny_bert)))
    model = build_model(source, TWO, head_seed=0)
    for name, weight in backbone_parameters(model).items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, full[name].to(dtype).float())
    assert model.dtype == torch.float32


def test_a_start_that_does_not_fit_is_named(source):
    start = pretrained_state(source)
    bias = start.pop("pooler.dense.bias")
    with pytest.raises(MaskMismatch, match=r"pooler\.dense\.bias"):
        build_model(source, TWO, start=start, head_seed=0)
    with pytest.raises(MaskMismatch, match=r"pooler\.dense\.bias"):
        build_model(source, TWO, start=start | {"pooler.dense.bias": bias[:3]}, head_seed=0)
    with pytest.raises(RecipeError, match="exclude each other"):
        build_model(source, TWO, start=start, head_seed=0, reinit_seed=0)


def test_an_unknown_family_is_refused_before_anything_is_loaded(tiny_bert, tmp_path):
    folder = tmp_path / "funnel"
    shutil.copytree(tiny_bert, folder)
    (folder / "config.json").write_text('{"model_type": "funnel", "auto_map": {"AutoModel": "evil.Model"}}')
    with pytest.raises(
        UnsupportedModel, match=r"'funnel' are not known(.|\n)*bert, deberta-v2, distilbert, electra"
    ):
        build_model(resolve(str(folder)), TWO, head_seed=0)


def test_regression_has_one_output(source):
    model = build_model(source, HeadSpec("regression", 1), head_seed=0)
    assert model.config.problem_type == "regression"
    assert model(input_ids=torch.tensor([[2, 9, 3]])).logits.shape == (1, 1)


@pytest.mark.parametrize(
    "spec",
    [("classification", 1), ("regression", 2), ("ranking", 2), ("classification", 2, 1.0)],
)
def test_heads_that_cannot_be(spec):
    with pytest.raises(RecipeError):
        HeadSpec(*spec)


def test_the_head_s_dropout(folders):
    found = {}
    for family, folder in folders.items():
        if family == "gpt2":
            with pytest.raises(RecipeError, match="gpt2 models has no dropout"):
                build_model(resolve(str(folder)), HeadSpec("classification", 2, 0.3), head_seed=0)
            continue
        model = build_model(resolve(str(folder)), HeadSpec("classification", 2, 0.3), head_seed=0)
        backbone = {id(module) for module in backbone_of(model).modules()}
        drops = [m.p for m in model.modules() if isinstance(m, torch.nn.Dropout) and id(m) not in backbone]
        found[family] = drops
    assert found.pop("deberta-v2") == [0.0, 0.3]  # its pooler, which is part of the head, has one of its own
    assert found == {family: [0.3] for family in folders if family not in ("gpt2", "deberta-v2")}


def test_attention_implementations_agree(source):
    ids = torch.tensor([[2, 9, 14, 3]])
    models = [build_model(source, TWO, head_seed=0, attention=kind).eval() for kind in ("sdpa", "eager")]
    assert [model.config._attn_implementation for model in models] == ["sdpa", "eager"]
    assert torch.allclose(models[0](input_ids=ids).logits, models[1](input_ids=ids).logits, atol=1e-5)
    with pytest.raises(RecipeError, match="'flash'"):
        build_model(source, TWO, head_seed=0, attention="flash")


def test_gpt2_finds_the_last_token_of_a_padded_batch(folders):
    source = resolve(str(folders["gpt2"]))
    tokenizer = load_tokenizer(source)
    model = build_model(source, TWO, head_seed=0).eval()
    assert model.config.pad_token_id == tokenizer.pad_token_id is not None
    texts = ["the film was great and the ending was not bad", "a story"]
    batch = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    for text, logits in zip(texts, model(**batch).logits, strict=True):
        alone = model(**tokenizer(text, return_tensors="pt", return_token_type_ids=False)).logits[0]
        assert torch.allclose(alone, logits, atol=1e-5)


def test_a_tokenizer_without_padding_pads_with_its_end_of_text(folders, tmp_path):
    folder = tmp_path / "gpt2"
    shutil.copytree(folders["gpt2"], folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["pad_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": "[SEP]"}))
    tokenizer = load_tokenizer(resolve(str(folder)))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 3
    assert build_model(resolve(str(folder)), TWO, head_seed=0).config.pad_token_id == 3
    del settings["sep_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(UnsupportedModel, match="neither a padding token nor an end"):
        load_tokenizer(resolve(str(folder)))


def test_a_folder_without_a_tokenizer(tiny_bert, tmp_path):
    folder = tmp_path / "mute"
    shutil.copytree(tiny_bert, folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UnsupportedModel, match=r"no tokenizer(.|\n)*save_pretrained"):
        load_tokenizer(resolve(str(folder)))
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(UnsupportedModel, match="cannot be loaded"):
        load_tokenizer(resolve(str(folder)))


def test_only_a_few_models_stay_in_memory(tiny_bert, tmp_path):
    for number in range(4):
        pretrained_state(edited(tiny_bert, tmp_path / str(number), lambda state: None))
    assert len(checkpoint_weights._cache) == checkpoint_weights._KEPT


def test_vit_s_names_on_disk_are_understood(tmp_path):
    """transformers writes its older names; the hub has them too."""
    folder = tiny_folder(tmp_path / "vit", "vit")
    names = load_file(folder / "model.safetensors")
    assert "encoder.layer.1.attention.attention.query.weight" in names
    source = resolve(str(folder))
    reference = backbone_parameters(transformers.AutoModel.from_pretrained(folder))
    assert same(pretrained_state(source), snapshot(reference))
    classifier = tiny_folder(tmp_path / "tuned", "vit", head="AutoModelForImageClassification")
    assert set(reference) - set(pretrained_state(resolve(str(classifier)))) == {
        "pooler.dense.weight",
        "pooler.dense.bias",
    }


def test_a_model_of_pictures_has_no_tasks_of_text(tmp_path):
    source = resolve(str(tiny_folder(tmp_path / "vit", "vit")))
    with pytest.raises(UnsupportedModel, match="vit models read pictures"):
        build_model(source, TWO, head_seed=0)
