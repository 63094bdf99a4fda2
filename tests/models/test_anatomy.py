"""What a model offers to prune: the papers' counts, every family, every class, every wrapper."""

import ast
import math
from pathlib import Path

import pytest
import torch
import transformers
from tests.tiny import SMALL, SMALL_PICTURES, tiny_config
from torch import nn

import tombola
from tombola.errors import UnsupportedModel
from tombola.masks.levels import drawn
from tombola.models.anatomy import (
    anatomy_of,
    backbone_of,
    backbone_parameters,
    head_parameters,
    relative_name,
    snapshot,
)
from tombola.models.families import FAMILIES, family_of

CLASSES = {
    "bert": ("BertModel", "BertForSequenceClassification", "BertForMaskedLM", "BertForQuestionAnswering"),
    "roberta": (
        "RobertaModel",
        "RobertaForSequenceClassification",
        "RobertaForMaskedLM",
        "RobertaForQuestionAnswering",
    ),
    "distilbert": (
        "DistilBertModel",
        "DistilBertForSequenceClassification",
        "DistilBertForMaskedLM",
        "DistilBertForQuestionAnswering",
    ),
    "gpt2": ("GPT2Model", "GPT2ForSequenceClassification", "GPT2LMHeadModel", "GPT2ForQuestionAnswering"),
    "electra": (
        "ElectraModel",
        "ElectraForSequenceClassification",
        "ElectraForMaskedLM",
        "ElectraForQuestionAnswering",
    ),
    "deberta-v2": (
        "DebertaV2Model",
        "DebertaV2ForSequenceClassification",
        "DebertaV2ForMaskedLM",
        "DebertaV2ForQuestionAnswering",
    ),
    "modernbert": (
        "ModernBertModel",
        "ModernBertForSequenceClassification",
        "ModernBertForMaskedLM",
        "ModernBertForQuestionAnswering",
    ),
    "vit": ("ViTModel", "ViTForImageClassification", "ViTForMaskedImageModeling"),
}
EVERY = [(family, name) for family, names in CLASSES.items() for name in names]
OTHER_SIZES = {
    "bert": {"num_hidden_layers": 3, "hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 40},
    "distilbert": {"n_layers": 3, "dim": 24, "n_heads": 3, "hidden_dim": 40},
    "gpt2": {"n_layer": 3, "n_embd": 24, "n_head": 3, "n_inner": 40},
}
OTHER_SIZES |= {family: OTHER_SIZES["bert"] for family in CLASSES if family not in OTHER_SIZES}


def tiny(class_name: str, family: str, **config) -> nn.Module:
    return getattr(transformers, class_name)(tiny_config(family, **config))


def tiny_classifier() -> nn.Module:
    return tiny("BertForSequenceClassification", "bert")


def test_bert_base_has_73_matrices_with_85_524_480_weights():
    with torch.device("meta"):
        anatomy = anatomy_of(transformers.BertModel(transformers.BertConfig()))
    assert len(anatomy.matrices) == 73
    assert anatomy.size == 85_524_480
    assert anatomy.size_without_optional == 85_524_480 - 768 * 768 == 84_934_656
    assert anatomy.optional == ("pooler.dense.weight",)
    assert anatomy.parameters == 109_482_240
    assert round(100 * anatomy.size / anatomy.parameters, 1) == 78.1
    assert [layer.heads for layer in anatomy.layers] == [12] * 12
    assert anatomy.layers[3].head_size == 64


def test_bert_without_its_pooler_has_72_matrices():
    with torch.device("meta"):
        anatomy = anatomy_of(transformers.BertForMaskedLM(transformers.BertConfig()))
    assert len(anatomy.matrices) == 72
    assert anatomy.size == anatomy.size_without_optional == 84_934_656
    assert anatomy.optional == ()


def test_the_names_of_a_tiny_bert_written_out():
    anatomy = anatomy_of(tiny("BertModel", "bert"))
    assert anatomy.prunable_names == (
        "encoder.layer.0.attention.self.query.weight",
        "encoder.layer.0.attention.self.key.weight",
        "encoder.layer.0.attention.self.value.weight",
        "encoder.layer.0.attention.output.dense.weight",
        "encoder.layer.0.intermediate.dense.weight",
        "encoder.layer.0.output.dense.weight",
        "encoder.layer.1.attention.self.query.weight",
        "encoder.layer.1.attention.self.key.weight",
        "encoder.layer.1.attention.self.value.weight",
        "encoder.layer.1.attention.output.dense.weight",
        "encoder.layer.1.intermediate.dense.weight",
        "encoder.layer.1.output.dense.weight",
        "pooler.dense.weight",
    )
    assert anatomy.size == 2 * (4 * 16 * 16 + 2 * 16 * 32) + 16 * 16
    assert anatomy.shapes["encoder.layer.1.intermediate.dense.weight"] == (32, 16)
    assert anatomy.layers[1].attention == anatomy.prunable_names[6:10]
    assert anatomy.layers[1].feed_forward == anatomy.prunable_names[10:12]
    assert anatomy.family == anatomy.prefix == "bert"


@pytest.mark.parametrize("family", sorted(CLASSES))
def test_every_class_of_a_family_has_the_same_names(family):
    """Traps 12 and 13: names are relative to the backbone; only the declared pooler may be missing."""
    required = set()
    for number, name in enumerate(CLASSES[family]):
        anatomy = anatomy_of(tiny(name, family))
        names = tuple(n for n in anatomy.prunable_names if n not in anatomy.optional)
        required.add(names)
        assert anatomy.size - anatomy.size_without_optional == (16 * 16 if anatomy.optional else 0)
        if number:
            assert anatomy.prefix, name
    assert len(required) == 1


@pytest.mark.parametrize(("family", "name"), EVERY)
@pytest.mark.parametrize("sizes", ["small", "other"])
def test_the_matrices_are_all_of_the_layers_linear_maps_whatever_the_sizes(family, name, sizes):
    """Trap 14. Counted independently: every Linear or Conv1D inside a list of layers, plus the pooler."""
    model = tiny(name, family, **({} if sizes == "small" else OTHER_SIZES[family]))
    backbone = getattr(model, model.base_model_prefix, model)
    inside = {
        f"{path}.weight": tuple(module.weight.shape)
        for path, module in backbone.named_modules()
        if isinstance(module, (nn.Linear, transformers.pytorch_utils.Conv1D))
        and (any(part.isdigit() for part in path.split(".")) or path.startswith("pooler"))
    }
    anatomy = anatomy_of(model)
    assert anatomy.shapes == inside
    assert anatomy.size == sum(math.prod(shape) for shape in inside.values())
    assert len(anatomy.layers) == (2 if sizes == "small" else 3)
    assert all(layer.heads * layer.head_size == (16 if sizes == "small" else 24) for layer in anatomy.layers)
    assert set(anatomy.shapes) <= set(backbone_parameters(model))
    assert not set(anatomy.embeddings) & set(anatomy.prunable_names)
    largest = max(backbone_parameters(model).items(), key=lambda item: item[1].numel())[0]
    assert largest in anatomy.embeddings  # the word embeddings


def test_gpt2_stores_transposes_and_fuses_query_key_and_value():
    model = tiny("GPT2Model", "gpt2")
    first = anatomy_of(model).matrices[0]
    assert (first.name, first.role, first.shape) == ("h.0.attn.c_attn.weight", "query_key_value", (16, 48))
    assert all(matrix.transposed for matrix in anatomy_of(model).matrices)
    mapped = model.h[0].attn.c_attn(torch.eye(16)) - model.h[0].attn.c_attn.bias
    assert torch.allclose(mapped, backbone_parameters(model)[first.name], atol=1e-6)
    assert not any(matrix.transposed for matrix in anatomy_of(tiny("BertModel", "bert")).matrices)


def test_gpt2_without_n_inner_has_four_times_the_width():
    anatomy = anatomy_of(tiny("GPT2Model", "gpt2", n_inner=None))
    assert anatomy.shapes["h.1.mlp.c_fc.weight"] == (16, 64)


def compiled(module: nn.Module) -> nn.Module:
    return torch.compile(module, backend="eager")  # type: ignore[return-value]


def with_compiled_backbone() -> nn.Module:
    model = tiny_classifier()
    model.bert = compiled(model.bert)
    return model


def with_compiled_layers() -> nn.Module:
    model = tiny_classifier()
    for index, layer in enumerate(model.bert.encoder.layer):
        model.bert.encoder.layer[index] = compiled(layer)
    return model


WRAPPED = {
    "DataParallel": lambda: nn.DataParallel(tiny_classifier()),
    "compile": lambda: compiled(tiny_classifier()),
    "both": lambda: nn.DataParallel(compiled(tiny_classifier())),
    "compiled backbone": with_compiled_backbone,
    "compiled layers": with_compiled_layers,
}


@pytest.mark.parametrize("how", WRAPPED)
def test_wrappers_change_no_names(how):
    """Trap 12."""
    plain, model = tiny_classifier(), WRAPPED[how]()
    assert anatomy_of(model) == anatomy_of(plain)
    assert list(backbone_parameters(model)) == list(backbone_parameters(plain))
    assert list(head_parameters(model)) == list(head_parameters(plain))
    assert type(backbone_of(model)) is transformers.BertModel


def test_distributed_data_parallel_changes_no_names():
    """Trap 12."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(tiny_classifier())
        assert anatomy_of(model) == anatomy_of(tiny_classifier())
        assert list(head_parameters(model)) == ["classifier.weight", "classifier.bias"]
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("name", "prefix", "expected"),
    [
        ("module.bert.encoder.layer.0.output.dense.weight", "bert", "encoder.layer.0.output.dense.weight"),
        ("_orig_mod.bert.pooler.dense.bias", "bert", "pooler.dense.bias"),
        ("module._orig_mod.module.transformer.h.1.ln_1.bias", "transformer", "h.1.ln_1.bias"),
        ("encoder.layer.0.output.dense.weight", "bert", "encoder.layer.0.output.dense.weight"),
        ("transformer.layer.0.ffn.lin1.weight", "distilbert", "transformer.layer.0.ffn.lin1.weight"),
        (
            "distilbert.transformer.layer.0.ffn.lin1.weight",
            "distilbert",
            "transformer.layer.0.ffn.lin1.weight",
        ),
        ("classifier.weight", "bert", "classifier.weight"),
    ],
)
def test_relative_names(name, prefix, expected):
    assert relative_name(name, prefix) == expected


@pytest.mark.parametrize(("family", "name"), EVERY)
def test_backbone_and_head_share_nothing_and_leave_nothing_out(family, name):
    model = tiny(name, family)
    backbone, head = backbone_parameters(model), head_parameters(model)
    ids = [id(weight) for weight in [*backbone.values(), *head.values()]]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(weight) for weight in model.parameters()}
    headless = name.endswith("Model") or name == "GPT2LMHeadModel"  # whose only head weight is tied
    assert bool(head) != headless


def test_a_tied_output_embedding_belongs_to_the_backbone():
    model = tiny("BertForMaskedLM", "bert")
    assert "cls.predictions.decoder.weight" not in head_parameters(model)
    assert (
        backbone_parameters(model)["embeddings.word_embeddings.weight"]
        is model.cls.predictions.decoder.weight
    )


def test_snapshots_do_not_follow_the_live_weights():
    """Trap 1."""
    model = tiny_classifier()
    before = snapshot(backbone_parameters(model))
    kept = {name: weight.clone() for name, weight in before.items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(1)
    assert all(torch.equal(before[name], kept[name]) for name in kept)
    assert not torch.equal(before["pooler.dense.weight"], backbone_parameters(model)["pooler.dense.weight"])


def test_a_missing_matrix_is_named():
    model = tiny("BertModel", "bert")
    model.encoder.layer[1].attention.self.key = nn.Identity()
    with pytest.raises(UnsupportedModel, match=r"encoder\.layer\.1\.attention\.self\.key\.weight"):
        anatomy_of(model)


def test_a_matrix_of_another_shape_is_named():
    model = tiny("BertModel", "bert")
    model.encoder.layer[0].intermediate.dense = nn.Linear(16, 31)
    with pytest.raises(UnsupportedModel, match=r"\(31, 16\).*\n.*encoder\.layer\.0\.intermediate"):
        anatomy_of(model)


def test_matrices_without_a_role_are_refused():
    model = tiny("BertModel", "bert", is_decoder=True, add_cross_attention=True)
    with pytest.raises(UnsupportedModel, match=r"encoder\.layer\.0\.crossattention\.self\.query\.weight"):
        anatomy_of(model)


def test_an_unknown_family_lists_the_known_ones():
    model = transformers.MPNetModel(
        transformers.MPNetConfig(
            vocab_size=10, hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8
        )
    )
    with pytest.raises(UnsupportedModel, match=r"'mpnet'.*not known") as caught:
        anatomy_of(model)
    for known in FAMILIES:
        assert known in str(caught.value)
    with pytest.raises(UnsupportedModel, match="None"):
        anatomy_of(nn.Linear(2, 2))


def test_layers_that_share_their_weights_are_refused_with_the_reason():
    model = transformers.AlbertModel(
        transformers.AlbertConfig(
            vocab_size=10, embedding_size=4, hidden_size=8, num_attention_heads=2, intermediate_size=8
        )
    )
    with pytest.raises(UnsupportedModel, match=r"'albert'.*layers share their weights"):
        anatomy_of(model)


def test_an_adapter_costs_at_most_80_lines():
    folder = Path(tombola.__file__).parent / "models" / "families"
    assert {*SMALL, *SMALL_PICTURES} == set(FAMILIES) == set(CLASSES)
    for name in FAMILIES:
        assert family_of(name).model_type == name
        assert len((folder / f"{name.replace('-', '_')}.py").read_text().splitlines()) <= 80


def test_the_page_shows_the_adapter_as_it_is():
    package = Path(tombola.__file__).parent
    page = (Path(__file__).parents[2] / "docs" / "add-a-family.md").read_text()
    adapter = (package / "models" / "families" / "electra.py").read_text()
    assert f"```python\n{adapter}```" in page
    assert (
        f"took {len(adapter.splitlines())}\nlines" in page
        or f"took {len(adapter.splitlines())} lines" in page
    )
    assert all(f"`{name}`" in page for name in FAMILIES)


def test_no_parameter_names_outside_the_adapters():
    """Trap 14: a string that spells a family's path (prose aside) belongs into models/families."""
    paths = {path for family in FAMILIES.values() for path in [*family.matrices.values(), family.pooler]}
    paths |= {family.layer.split("{}")[0] for family in FAMILIES.values()}
    names = {path for path in paths if path and "." in path and len(path) > 3}
    assert "attention.self.query" in names
    for file in Path(tombola.__file__).parent.rglob("*.py"):
        if file.parent.name == "families":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                found = [name for name in names if name in node.value]
                assert not found, f"{file.name}:{node.lineno}: {node.value}"


def test_the_sizes_of_bert_base_and_large_give_the_paper_s_remaining_weights():
    """SPEC 3.3: (14, 1) of base is .932; (38, 2) and (76, 4) of large are .920 and .840."""
    large = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    }
    with torch.device("meta"):
        base = anatomy_of(transformers.BertModel(transformers.BertConfig())).structure_sizes
        large = anatomy_of(transformers.BertModel(transformers.BertConfig(**large))).structure_sizes
    assert (base.hidden, base.head_size, base.inner, base.heads) == (768, 64, 3072, (12,) * 12)
    assert (base.parameters, large.parameters) == (109_482_240, 335_141_888)
    assert base.encoder == 12 * 7_087_872
    for sizes, heads, ffns, printed in [(base, 14, 1, 0.932), (large, 38, 2, 0.920), (large, 76, 4, 0.840)]:
        mask = drawn(sizes.heads, heads=heads, ffns=ffns, seed=0)
        assert round(sizes.remaining_weight(mask), 3) == printed


def test_a_gated_ffn_has_three_matrices():
    sizes = anatomy_of(tiny("ModernBertModel", "modernbert")).structure_sizes
    assert (sizes.ffn_matrices, sizes.ffn_weights, sizes.head_weights) == (3, 3 * 16 * 32, 4 * 16 * 8)
    assert anatomy_of(tiny("GPT2Model", "gpt2")).structure_sizes.ffn_matrices == 2


def test_a_deberta_with_a_convolution_is_refused():
    model = tiny("DebertaV2Model", "deberta-v2", conv_kernel_size=3)
    with pytest.raises(UnsupportedModel, match=r"convolution(.|\n)*conv_kernel_size=3"):
        anatomy_of(model)


@pytest.mark.parametrize("kinds", [["c2p"], ["p2c"], ["p2c", "c2p"]])
def test_deberta_s_projections_of_positions_are_matrices_of_the_layers(kinds):
    """Only where they are its own: with share_att_key queries and keys are projected alike."""
    shared = anatomy_of(tiny("DebertaV2Model", "deberta-v2", pos_att_type=kinds))
    apart = anatomy_of(tiny("DebertaV2Model", "deberta-v2", pos_att_type=kinds, share_att_key=False))
    roles = {matrix.role for matrix in apart.matrices} - {matrix.role for matrix in shared.matrices}
    assert roles == {{"c2p": "position_key", "p2c": "position_query"}[kind] for kind in kinds}
    model = tiny("DebertaV2Model", "deberta-v2", share_att_key=False, pos_att_type=kinds)
    model.config.share_att_key = True
    with pytest.raises(UnsupportedModel, match=r"pos_(key|query)_proj\.weight"):
        anatomy_of(model)
