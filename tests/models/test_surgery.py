"""Physical removal against the gates on the full model: same outputs, same training, the parts really gone."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny import CLASSIFIERS, random_batch, random_model
from torch import nn

from tombola.errors import MaskMismatch, UnsupportedModel
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import anatomy_of, backbone_of, backbone_parameters
from tombola.models.gating import gated
from tombola.models.surgery import shrink

IMPLEMENTATIONS = [
    (family, attention)
    for family in CLASSIFIERS
    for attention in ("sdpa", "eager")
    if (family, attention) != ("deberta-v2", "sdpa")  # its attention is its own code
]
OF_BERT = ["BertModel", "BertForMaskedLM", "BertForQuestionAnswering", "BertForTokenClassification"]
UNEVEN = StructureMask(((True, False, True, True), (False, True, False, False)), (True, True))
NO_FFN = StructureMask(((True,) * 4, (False, True, True, False)), (False, True))
NO_HEAD = StructureMask(((False,) * 4, (True, False, True, True)), (True, False))
ONE_HEAD = StructureMask(((False,) * 4, (False, False, True, False)), (False, False))
ONE_FFN = StructureMask(((False,) * 4, (False,) * 4), (False, True))
MASKS = {"uneven": UNEVEN, "no ffn": NO_FFN, "no head": NO_HEAD, "one head": ONE_HEAD, "one ffn": ONE_FFN}

gates = st.lists(st.booleans(), min_size=4, max_size=4).map(tuple)
masks = st.builds(StructureMask, st.tuples(gates, gates), st.tuples(st.booleans(), st.booleans())).filter(
    lambda mask: not mask.removes_everything
)


def classifier(family: str = "bert", **options) -> nn.Module:
    return random_model(CLASSIFIERS[family], family, **options)


def shrunk(model: nn.Module, mask: StructureMask) -> nn.Module:
    model = deepcopy(model)
    shrink(model, mask)
    return model


def outputs(model: nn.Module, batch: dict) -> list[torch.Tensor]:
    with torch.no_grad():
        answer = model(**batch, return_dict=True)
    return [value for value in answer.values() if isinstance(value, torch.Tensor)]


def count(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def agree(one: list[torch.Tensor], other: list[torch.Tensor], atol: float = 2e-6) -> None:
    assert len(one) == len(other) > 0
    for mine, theirs in zip(one, other, strict=True):
        assert torch.allclose(mine, theirs, atol=atol), (mine - theirs).abs().max()


# --- the same function --------------------------------------------------------


@pytest.mark.parametrize(("family", "attention"), IMPLEMENTATIONS)
def test_the_smaller_model_computes_what_the_gates_compute(family, attention):
    model, batch = classifier(family, attention=attention), random_batch(family)

    @settings(max_examples=12, deadline=None, derandomize=True, database=None)
    @given(masks)
    def check(mask):
        with gated(model, mask):
            expected = outputs(model, batch)
        agree(outputs(shrunk(model, mask), batch), expected)

    check()


@pytest.mark.parametrize("name", OF_BERT)
@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
def test_every_class_of_a_family_can_be_made_smaller(name, mask):
    model, batch = random_model(name, "bert"), random_batch("bert")
    with gated(model, mask):
        expected = outputs(model, batch)
    agree(outputs(shrunk(model, mask), batch), expected)


def test_a_model_can_be_made_smaller_through_its_backbone():
    model = classifier()
    through = deepcopy(model)
    shrink(through.bert, UNEVEN)
    agree(
        outputs(through, random_batch("bert")), outputs(shrunk(model, UNEVEN), random_batch("bert")), atol=0
    )


@pytest.mark.parametrize("kinds", [["c2p"], ["p2c"], ["p2c", "c2p"]])
def test_deberta_s_own_projections_of_positions_are_cut_too(kinds):
    model = classifier("deberta-v2", share_att_key=False, pos_att_type=kinds)
    batch = random_batch("deberta-v2")
    for mask in MASKS.values():
        with gated(model, mask):
            expected = outputs(model, batch)
        agree(outputs(shrunk(model, mask), batch), expected)
    before, matrices = count(model), 4 + len(kinds)
    one_head_less = StructureMask(((True, True, True, False), (True,) * 4), (True, True))
    assert before - count(shrunk(model, one_head_less)) == matrices * 16 * 4 + (matrices - 1) * 4


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_hidden_states_are_all_there(family):
    model, batch = classifier(family), random_batch(family)
    with gated(model, NO_HEAD), torch.no_grad():
        expected = model(**batch, output_hidden_states=True).hidden_states
    with torch.no_grad():
        small = shrunk(model, NO_HEAD)(**batch, output_hidden_states=True).hidden_states
    agree(list(small), list(expected))
    assert len(small) == 3


@pytest.mark.parametrize("mask", [UNEVEN, NO_HEAD], ids=["uneven", "no head"])
def test_gpt2_goes_on_from_its_cache(mask):
    """Positions are counted in the first layer's cache, also where that layer has no heads to remember."""
    small = shrunk(random_model("GPT2LMHeadModel", "gpt2"), mask)
    tokens = torch.tensor([[5, 9, 14, 20, 7, 33]])
    with torch.no_grad():
        at_once = small(tokens).logits
        first = small(tokens[:, :4], use_cache=True)
        rest = small(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)
    agree([first.logits, rest.logits], [at_once[:, :4], at_once[:, 4:]])
    options = {"attention_mask": torch.ones_like(tokens), "max_new_tokens": 4, "do_sample": False}
    written = [small.generate(tokens, **options, use_cache=cache) for cache in (True, False)]
    assert torch.equal(*written)


# --- the same training --------------------------------------------------------


def trained(model: nn.Module, family: str, steps: int = 5) -> list[float]:
    """Losses of AdamW without weight decay; its ε is large so that rounding in gradients of zero stays rounding."""
    for module in model.train().modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.config.attention_dropout = 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3, weight_decay=0.0, fused=True)
    losses = []
    for step in range(steps):
        loss = model(**random_batch(family, seed=step, labels=True)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("family", CLASSIFIERS)
@pytest.mark.parametrize("mask", [UNEVEN & NO_FFN, NO_HEAD, ONE_HEAD], ids=["uneven", "no head", "one head"])
def test_the_smaller_model_trains_as_the_gated_one(family, mask):
    full = classifier(family)
    small = shrunk(full, mask)
    with gated(full, mask):
        expected = trained(full, family)
    losses = trained(small, family)
    assert losses == pytest.approx(expected, abs=2e-5)
    assert abs(losses[-1] - losses[0]) > 1e-3
    after = dict(shrunk(full, mask).named_parameters())
    start = dict(shrunk(classifier(family), mask).named_parameters())
    assert list(after) == [name for name, _ in small.named_parameters()]
    for name, weight in small.named_parameters():
        assert torch.allclose(weight, after[name], atol=2e-5), name
    assert any((after[name] - start[name]).abs().max() > 0.01 for name in after)


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_every_weight_that_is_left_gets_a_gradient(family):
    """DDP waits for each; the full model's own idle ones aside."""
    model, batch = classifier(family), random_batch(family, labels=True)
    model(**batch).loss.backward()
    idle = {name for name, weight in model.named_parameters() if weight.grad is None}
    small = shrunk(classifier(family), NO_HEAD)
    small(**batch).loss.backward()
    assert {name for name, weight in small.named_parameters() if weight.grad is None} <= idle
    assert all(weight.numel() for weight in small.parameters())


@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable:FutureWarning")
@pytest.mark.parametrize("family", CLASSIFIERS)
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_changes_nothing(family, reentrant):
    batch, gradients = random_batch(family, labels=True), []
    for checkpointing in (False, True):
        small = shrunk(classifier(family), NO_HEAD).train()
        for module in small.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        if checkpointing:
            small.gradient_checkpointing_enable({"use_reentrant": reentrant})
        small(**batch).loss.backward()
        gradients.append({n: w.grad for n, w in small.named_parameters() if w.grad is not None})
    assert list(gradients[0]) == list(gradients[1])
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], atol=1e-6), name


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_bfloat16_autocast(family):
    small, batch = shrunk(classifier(family), NO_HEAD), random_batch(family, labels=True)
    exact = small(**batch).loss.item()
    with torch.autocast("cpu", torch.bfloat16):
        loss = small(**batch).loss
    loss.backward()
    assert loss.item() == pytest.approx(exact, abs=0.1)


def test_the_dropout_of_a_removed_ffn_is_gone_and_that_of_the_bias_stays():
    small = shrunk(classifier(), StructureMask(((False,) * 4, (True,) * 4), (False, True)))
    drops = {
        name for name, module in small.bert.encoder.layer[0].named_modules() if isinstance(module, nn.Dropout)
    }
    assert drops == {"attention.output.dropout"}
    small = shrunk(classifier("gpt2"), StructureMask(((False,) * 4, (True,) * 4), (False, True)))
    block = small.transformer.h[0].train()
    block.attn.resid_dropout.p = 0.5
    torch.manual_seed(0)
    added = block(torch.zeros(1, 50, 16))
    bias = block.attn.c_proj.bias
    assert torch.equal(added, torch.where(added == 0, 0, 2 * bias.expand_as(added)))
    assert 0.3 < (added == 0).float().mean() < 0.7


# --- what is left -------------------------------------------------------------


def test_the_kept_weights_are_bitwise_copies_of_the_right_rows_and_columns():
    model = classifier()
    small, old = shrunk(model, UNEVEN), model.bert.encoder.layer
    rows = torch.tensor([*range(4), *range(8, 16)])  # heads 0, 2 and 3 of size 4
    attention = small.bert.encoder.layer[0].attention
    for name in ("query", "key", "value"):
        before, after = getattr(old[0].attention.self, name), getattr(attention.self, name)
        assert torch.equal(after.weight, before.weight[rows])
        assert torch.equal(after.bias, before.bias[rows])
    assert torch.equal(attention.output.dense.weight, old[0].attention.output.dense.weight[:, rows])
    assert torch.equal(attention.output.dense.bias, old[0].attention.output.dense.bias)
    assert repr(attention.self.query) == "Linear(in_features=16, out_features=12, bias=True)"
    assert repr(attention.output.dense) == "Linear(in_features=12, out_features=16, bias=True)"
    assert (attention.self.num_attention_heads, attention.self.all_head_size) == (3, 12)
    assert attention.self.scaling == old[0].attention.self.scaling == 0.5
    same = [name for name in dict(small.named_parameters()) if "attention.self" not in name]
    for name in same:
        if not name.endswith("attention.output.dense.weight"):
            assert torch.equal(small.get_parameter(name), model.get_parameter(name)), name


@pytest.mark.parametrize(
    ("family", "fused"), [("gpt2", "h.0.attn.c_attn"), ("modernbert", "layers.0.attn.Wqkv")]
)
def test_the_three_parts_of_a_fused_matrix_lose_the_same_heads(family, fused):
    model = classifier(family)
    before = backbone_of(model).get_submodule(fused).weight
    after = backbone_of(shrunk(model, UNEVEN)).get_submodule(fused).weight
    rows = [16 * block + row for block in range(3) for row in (*range(4), *range(8, 16))]
    assert torch.equal(after, before[:, rows] if family == "gpt2" else before[rows])


def test_the_smaller_model_shares_no_memory_with_the_full_one():
    model = classifier()
    shrink_in_place, weight = deepcopy(model), None
    weight = shrink_in_place.bert.encoder.layer[0].attention.self.query.weight
    shrink(shrink_in_place, UNEVEN)
    kept = shrink_in_place.bert.encoder.layer[0].attention.self.query.weight
    assert kept.untyped_storage().data_ptr() != weight.untyped_storage().data_ptr()
    assert kept.untyped_storage().nbytes() == 12 * 16 * 4


#: Weights of one head (hidden 16, head size 4), of an FFN (inner 32), and what goes with a layer's last head.
WEIGHTS = {
    "bert": (4 * 16 * 4 + 3 * 4, 2 * 16 * 32 + 32 + 16, 0),
    "roberta": (4 * 16 * 4 + 3 * 4, 2 * 16 * 32 + 32 + 16, 0),
    "electra": (4 * 16 * 4 + 3 * 4, 2 * 16 * 32 + 32 + 16, 0),
    "distilbert": (4 * 16 * 4 + 3 * 4, 2 * 16 * 32 + 32 + 16, 0),
    "deberta-v2": (4 * 16 * 4 + 3 * 4, 2 * 16 * 32 + 32 + 16, 0),
    "gpt2": (4 * 16 * 4 + 3 * 4, 2 * 16 * 32 + 32 + 16 + 2 * 16, 2 * 16),
    "vit": (4 * 16 * 4 + 3 * 4, 2 * 16 * 32 + 32 + 16 + 2 * 16, 2 * 16),
    "modernbert": (4 * 16 * 4, 3 * 16 * 32 + 16, 16),
}


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_the_parameters_drop_by_exactly_what_was_removed(family):
    head, ffn, last = WEIGHTS[family]
    model = classifier(family)
    whole = ((True,) * 4, (True,) * 4)
    for removed, mask in [
        (head, StructureMask(((True,) * 4, (True, True, False, True)), (True, True))),
        (4 * head, UNEVEN),
        (ffn, StructureMask(whole, (True, False))),
        (2 * ffn, StructureMask(whole, (False, False))),
        (ffn + 2 * head, NO_FFN),
        (4 * head + last, StructureMask(((True,) * 4, (False,) * 4), (True, True))),
        (
            7 * head + last * (family != "modernbert") + 2 * ffn,
            ONE_HEAD,
        ),  # whose first layer has no such norm
    ]:
        small = shrunk(model, mask)
        assert count(model) - count(small) == removed, mask
        assert len(small.state_dict()) == len({id(w) for w in small.state_dict().values()})


@pytest.mark.parametrize("family", CLASSIFIERS)
@pytest.mark.parametrize("mask", MASKS.values(), ids=list(MASKS))
def test_the_anatomy_says_what_is_there(family, mask):
    model = classifier(family)
    whole, anatomy = anatomy_of(model), anatomy_of(shrunk(model, mask))
    assert anatomy.structure == mask
    assert whole.structure is None
    assert anatomy.heads_per_layer == tuple(map(sum, mask.heads))
    assert [layer.inner for layer in anatomy.layers] == [32 * ffn for ffn in mask.ffns]
    assert [bool(layer.attention) for layer in anatomy.layers] == [any(heads) for heads in mask.heads]
    assert [bool(layer.feed_forward) for layer in anatomy.layers] == list(mask.ffns)
    weights = whole.structure_sizes
    assert whole.size - anatomy.size == weights.removed_weights(mask)
    assert set(anatomy.prunable_names) <= set(whole.prunable_names)
    assert set(backbone_parameters(shrunk(model, mask))) <= set(backbone_parameters(model))
    with pytest.raises(UnsupportedModel, match="full model"):
        _ = anatomy.structure_sizes


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_shapes_without_values_are_cut_alike(family):
    """As it happens inside from_pretrained, which makes models on the meta device."""
    real = shrunk(classifier(family), ONE_HEAD)
    empty = shrunk(classifier(family).to("meta"), ONE_HEAD)
    assert {weight.device.type for weight in empty.parameters()} == {"meta"}
    shapes = {name: weight.shape for name, weight in real.state_dict().items()}
    assert {name: weight.shape for name, weight in empty.state_dict().items()} == shapes
    assert not any(weight.is_meta for weight in real.parameters())


def test_types_and_frozen_weights_stay():
    model = classifier().to(torch.bfloat16).requires_grad_(False)
    model.bert.encoder.layer[0].attention.self.query.weight.requires_grad_(True)
    small = shrunk(model, UNEVEN)
    assert {weight.dtype for weight in small.parameters()} == {torch.bfloat16}
    trainable = [name for name, weight in small.named_parameters() if weight.requires_grad]
    assert trainable == ["bert.encoder.layer.0.attention.self.query.weight"]
    for mode in (True, False):
        small = shrunk(model.train(mode), ONE_FFN)
        assert {module.training for module in small.modules()} == {mode}


def test_the_word_embeddings_stay_tied():
    small = shrunk(random_model("BertForMaskedLM", "bert"), UNEVEN)
    assert small.cls.predictions.decoder.weight is small.bert.embeddings.word_embeddings.weight


def test_a_mask_that_keeps_everything_changes_no_parameter():
    model = classifier()
    before = {name: id(weight) for name, weight in model.named_parameters()}
    shrink(model, StructureMask.full([4, 4]))
    assert {name: id(weight) for name, weight in model.named_parameters()} == before
    assert anatomy_of(model).structure == StructureMask.full([4, 4])


def test_layers_inside_wrappers_are_found():
    model = classifier()
    for index, layer in enumerate(model.bert.encoder.layer):
        model.bert.encoder.layer[index] = torch.compile(layer, backend="eager")
    plain = shrunk(classifier(), ONE_HEAD)
    shrink(model, ONE_HEAD)
    assert list(backbone_parameters(model)) == list(backbone_parameters(plain))
    assert anatomy_of(model) == anatomy_of(plain)


# --- twice, and mistakes ------------------------------------------------------


@pytest.mark.parametrize("family", CLASSIFIERS)
@pytest.mark.parametrize("last", [(False, False, True, True), (False,) * 4])
def test_twice_is_once(family, last):
    """Masks are about the full model: the second one counts heads as the first one did."""
    model, first = classifier(family), (True, False, True, True)
    before, second = (
        StructureMask((first, first), (True, False)),
        StructureMask((last, first), (False, False)),
    )
    once, twice = shrunk(model, second), shrunk(shrunk(model, before), second)
    assert list(once.state_dict()) == list(twice.state_dict())
    assert all(torch.equal(w, once.state_dict()[name]) for name, w in twice.state_dict().items())
    assert anatomy_of(once) == anatomy_of(twice)
    agree(outputs(twice, random_batch(family)), outputs(once, random_batch(family)), atol=0)


def test_what_is_gone_does_not_come_back():
    small = shrunk(classifier(), NO_HEAD)
    with pytest.raises(MaskMismatch, match=r"keeps head 0, head 2, head 3, which(.|\n)*layer 0"):
        shrink(small, UNEVEN)
    with pytest.raises(MaskMismatch, match=r"keeps the FFN, which(.|\n)*layer 1"):
        shrink(small, NO_HEAD | ONE_FFN)
    assert anatomy_of(small).structure == NO_HEAD


def test_the_mask_of_another_model_is_refused_and_nothing_is_touched():
    model = classifier()
    before = count(model)
    with pytest.raises(MaskMismatch, match=r"3 heads in a layer that has 4(.|\n)*BertFor\w+: layer 1"):
        shrink(model, StructureMask(((True,) * 4, (True, False, True)), (False, True)))
    with pytest.raises(MaskMismatch, match="about 3 layers, the model has 2"):
        shrink(model, StructureMask.full([4, 4, 4]))
    with pytest.raises(MaskMismatch, match="removes all 8 heads and all 2 FFNs"):
        shrink(model, ~StructureMask.full([4, 4]))
    assert count(model) == before
    assert anatomy_of(model).structure is None
