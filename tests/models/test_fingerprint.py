"""What θ0 is: one hash for the same backbone under any head or wrapper, another for any other bit."""

import hashlib
import json

import torch
import transformers
from tests.tiny import tiny_config
from torch import nn

from tombola.models.anatomy import backbone_parameters
from tombola.models.build import HeadSpec, build_model, pretrained_fingerprint, pretrained_state
from tombola.models.fingerprint import fingerprint
from tombola.models.resolve import resolve


def test_the_value_written_out():
    state = {"b": torch.tensor([[1.0, 2.0]]), "a": torch.tensor([3], dtype=torch.int64)}
    one = hashlib.sha256((3).to_bytes(8, "little")).hexdigest()
    two = hashlib.sha256(b"\x00\x00\x80\x3f\x00\x00\x00\x40").hexdigest()
    text = json.dumps([["a", "int64", [1], one], ["b", "float32", [1, 2], two]], separators=(",", ":"))
    assert fingerprint(state) == hashlib.sha256(text.encode()).hexdigest()
    assert fingerprint(dict(reversed(state.items()))) == fingerprint(state)


def test_any_change_changes_it():
    state = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(3)}
    variants = [
        state,
        {"a": state["a"], "c": state["b"]},
        {"a": state["a"]},
        {"a": state["a"].reshape(3, 2), "b": state["b"]},
        {"a": state["a"].double(), "b": state["b"]},
        {"a": state["a"], "b": torch.tensor([0.0, 0.0, -0.0])},
        {"a": torch.nextafter(state["a"], torch.tensor(9.0)), "b": state["b"]},
        {"a": state["a"], "b": state["b"].to(torch.bfloat16)},
        {"b": state["a"], "a": state["b"]},
    ]
    assert len({fingerprint(variant) for variant in variants}) == len(variants)


def test_memory_layout_does_not_matter():
    plain = torch.arange(6.0).reshape(2, 3)
    assert fingerprint({"a": plain}) == fingerprint({"a": plain.T.contiguous().T})
    assert fingerprint({"a": plain}) == fingerprint({"a": nn.Parameter(plain)})


def test_tied_weights_count_once():
    weight = torch.randn(3, 2)
    assert fingerprint({"a": weight, "b": weight}) == fingerprint({"a": weight})
    assert fingerprint({"a": weight, "b": weight.T}) != fingerprint({"a": weight})  # a view of another shape
    assert fingerprint({"a": weight, "b": weight.clone()}) != fingerprint({"a": weight})


def test_empty_tensors_are_not_taken_for_tied():
    empty = {"a": torch.zeros(0), "b": torch.zeros(0)}
    assert fingerprint(empty) != fingerprint({"a": torch.zeros(0)})


def test_neither_head_nor_wrapper_matter(tiny_bert):
    source = resolve(str(tiny_bert))
    expected = fingerprint(pretrained_state(source))
    assert pretrained_fingerprint(source) == expected
    for spec, seed in ((HeadSpec("classification", 3), 0), (HeadSpec("regression", 1), 5)):
        model = build_model(source, spec, head_seed=seed)
        assert fingerprint(backbone_parameters(model)) == expected
        assert fingerprint(backbone_parameters(nn.DataParallel(model))) == expected
        compiled = torch.compile(model, backend="eager")
        assert fingerprint(backbone_parameters(compiled)) == expected  # type: ignore[arg-type]
    assert fingerprint(backbone_parameters(transformers.AutoModel.from_pretrained(tiny_bert))) == expected


def test_a_tied_head_leaves_no_trace():
    model = transformers.GPT2LMHeadModel(tiny_config("gpt2"))
    assert model.lm_head.weight is model.transformer.wte.weight
    assert fingerprint(backbone_parameters(model)) == fingerprint(backbone_parameters(model.transformer))
