"""Importance of heads and FFNs: against finite differences, against one example at a time with gates that exist,
and what it must not depend on (SPEC 3.1 and trap 5)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from tests.scores.tiny_scoring import NUMERICS, ONLY_EAGER, TEXT, make_data, make_model, picked, values
from torch import nn
from torch.nn import functional as F

from tombola.models.anatomy import anatomy_of, backbone_of
from tombola.models.families import FAMILIES
from tombola.scores.importance import GRANULARITIES, importance
from tombola.tasks.encoding import Encoded
from tombola.training.recipe import Numerics


def one_loss(model: Any, data: Encoded, row: int) -> torch.Tensor:
    """The loss of one example on its own, without any padding, in the model's own precision."""
    ids = torch.tensor(data.ids[data.offsets[row] : data.offsets[row + 1]].astype(np.int64))[None]
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    target = torch.tensor(data.targets[row])
    if data.targets.dtype.kind == "f":
        return (logits[0, 0] - target) ** 2
    return F.cross_entropy(logits[0], target)


def matrix(model: Any, layer: int, role: str) -> Any:
    family = FAMILIES[model.config.model_type]
    return backbone_of(model).get_submodule(f"{family.layer.format(layer)}.{family.matrices[role]}")


def one_at_a_time(model: Any, data: Encoded, tokens: bool = False) -> np.ndarray:
    """examples × gates: the gradients of gates that exist, from a forward and backward pass for each example.

    With ``tokens`` a gate for every token, the absolute values of whose gradients are added up.
    """
    layers = anatomy_of(model).layers
    rows = []
    model.eval()
    for row in range(len(data)):
        length = int(data.lengths[row]) if tokens else 1
        heads = [torch.ones(length, layer.heads, 1, requires_grad=True) for layer in layers]
        ffns = [torch.ones(length, 1, requires_grad=True) for _ in layers]
        handles = []
        for i, gates in enumerate(heads):
            handles.append(
                matrix(model, i, "attention_output").register_forward_pre_hook(
                    lambda _, inputs, g=gates: (inputs[0].unflatten(-1, (g.shape[1], -1)) * g).flatten(-2)
                )
            )
        for i, gate in enumerate(ffns):
            handles.append(
                matrix(model, i, "output").register_forward_hook(lambda _, __, output, g=gate: output * g)
            )
        gradients = torch.autograd.grad(one_loss(model, data, row), [*heads, *ffns])
        for handle in handles:
            handle.remove()
        rows.append(torch.cat([g.abs().sum(0).flatten() if tokens else g.flatten() for g in gradients]))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("family", TEXT)
def test_finite_differences_of_gates(family: str) -> None:
    """A gate at 1 ± ε is the head's part of the output matrix, or the FFN's matrix and bias, times 1 ± ε."""
    model, data = make_model(family).double().eval(), make_data(4)
    # ModernBERT turns queries and keys in fp32 whatever the model is in: small steps drown in its rounding.
    step, tolerance = (1e-3, 1e-3) if family == "modernbert" else (1e-5, 1e-5)
    expected = []
    for role in ("attention_output", "output"):
        for layer in anatomy_of(model).layers:
            module = matrix(model, layer.index, role)
            inputs = module.weight if FAMILIES[family].transposed else module.weight.T
            parts = inputs.chunk(layer.heads) if role == "attention_output" else [inputs]
            for part in parts:
                weights = [part]
                if role == "output" and module.bias is not None:
                    weights.append(module.bias)
                losses = []
                with torch.no_grad():
                    for factor in (1 + step, (1 - step) / (1 + step)):
                        for weight in weights:
                            weight.mul_(factor)
                        losses.append([float(one_loss(model, data, row)) for row in range(len(data))])
                    for weight in weights:
                        weight.div_(1 - step)
                expected.append(np.abs(np.subtract(*losses) / (2 * step)).mean())
    # The loss itself is in fp32 (tombola.training.loop.loss_sum), so its gradient is good to seven digits.
    assert values(importance(model, data, NUMERICS)) == pytest.approx(expected, rel=tolerance, abs=1e-7)
    assert min(expected) > 1e-5


@pytest.mark.parametrize(
    ("family", "attention"),
    [(f, a) for f in TEXT for a in ("sdpa", "eager") if a == "eager" or f not in ONLY_EAGER],
)
def test_one_example_at_a_time_with_gates_that_exist(family: str, attention: str) -> None:
    model, data = make_model(family, attention=attention), make_data()
    found = importance(model, data, NUMERICS, batch_size=4)
    assert values(found) == pytest.approx(np.abs(one_at_a_time(model, data)).mean(0), rel=1e-4, abs=1e-6)
    by_token = importance(model, data, NUMERICS, granularity="token", batch_size=4)
    assert values(by_token) == pytest.approx(
        one_at_a_time(model, data, tokens=True).mean(0), rel=1e-4, abs=1e-6
    )
    # In the last layer a single token has a gradient.
    assert all(a < b for a, b in zip(found.heads[0], by_token.heads[0], strict=True))
    assert found.examples == by_token.examples == 11
    assert found.batch_size is by_token.batch_size is None


@pytest.mark.parametrize("family", [name for name in TEXT if name not in ONLY_EAGER])
def test_both_attentions_give_the_same(family: str) -> None:
    data = make_data()
    sdpa, eager = (
        values(importance(make_model(family, attention=name), data, NUMERICS)) for name in ("sdpa", "eager")
    )
    assert sdpa == pytest.approx(eager, rel=1e-4, abs=1e-6)


def test_a_regression_is_scored_by_its_squared_error() -> None:
    model, data = make_model(labels=1), make_data(labels=1)
    expected = np.abs(one_at_a_time(model, data)).mean(0)
    assert values(importance(model, data, NUMERICS, batch_size=4)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("granularity", ["example", "token"])
@pytest.mark.parametrize("family", TEXT)
def test_neither_batch_size_nor_order_nor_padding_counts(family: str, granularity: Any) -> None:
    model, data = make_model(family), make_data()
    expected = pytest.approx(
        values(importance(model, data, NUMERICS, granularity=granularity)), rel=1e-4, abs=1e-6
    )
    for size in (1, 3):
        assert values(importance(model, data, NUMERICS, granularity=granularity, batch_size=size)) == expected
    micro = Numerics(micro_batch=2)
    assert values(importance(model, data, micro, granularity=granularity)) == expected
    shuffled = picked(data, random.Random(0).sample(range(len(data)), len(data)))
    assert values(importance(model, shuffled, NUMERICS, granularity=granularity, batch_size=4)) == expected


@pytest.mark.parametrize("granularity", ["example", "token"])
def test_a_long_neighbour_only_adds_its_own_share(granularity: Any) -> None:
    """Beside an example of sixteen tokens the others are mostly padding."""
    model, data = make_model(), make_data(5, longest=16)
    longest, short = int(data.lengths.argmax()), [int(row) for row in data.lengths.argsort()[:3]]
    together, alone, apart = (
        np.array(values(importance(model, picked(data, rows), NUMERICS, granularity=granularity))) * len(rows)
        for rows in ([*short, longest], [longest], short)
    )
    assert together == pytest.approx(alone + apart, rel=1e-4)


@pytest.mark.parametrize("granularity", ["example", "token"])
def test_the_doubled_data_have_the_same_importance(granularity: Any) -> None:
    """Trap 5: gradients that are not zeroed between batches let early batches weigh more."""
    model, data = make_model(), make_data()
    twice = picked(data, [*range(len(data)), *range(len(data))])
    once, doubled = (
        values(importance(model, examples, NUMERICS, granularity=granularity, batch_size=4))
        for examples in (data, twice)
    )
    assert doubled == pytest.approx(once, rel=1e-4)


def test_a_batch_is_consecutive_examples() -> None:
    model, data = make_model(), make_data()
    gradients = one_at_a_time(model, data)
    for size in (1, 4, 100):
        batches = [gradients[start : start + size].sum(0) for start in range(0, len(data), size)]
        expected = np.abs(batches).sum(0) / len(data)
        for numerics in (NUMERICS, Numerics(micro_batch=2)):
            found = importance(model, data, numerics, granularity="batch", batch_size=size)
            assert values(found) == pytest.approx(expected, rel=1e-4, abs=1e-6)
            assert found.batch_size == size
    one, four = (importance(model, data, NUMERICS, granularity="batch", batch_size=size) for size in (1, 4))
    assert all(a > 1.01 * b for a, b in zip(values(one), values(four), strict=True))


@pytest.mark.parametrize("family", TEXT)
def test_bf16_is_close_to_fp32(family: str) -> None:
    model, data = make_model(family), make_data(40)
    full, half = (values(importance(model, data, Numerics(precision=p))) for p in ("fp32", "bf16"))
    assert half != full
    assert half == pytest.approx(full, rel=0.15, abs=0.03 * max(full))


def everything(model: nn.Module) -> list[Any]:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return [
        [(module.training, *(len(getattr(module, name)) for name in hooks)) for module in model.modules()],
        [(w.requires_grad, w.grad is None or w.grad.tolist()) for w in model.parameters()],
        [w.tolist() for w in model.state_dict().values()],
        torch.get_rng_state().tolist(),
        torch.is_grad_enabled(),
    ]


def uneven_model() -> Any:
    """Some of everything: modes, frozen weights, a gradient."""
    model = make_model().train()
    model.bert.encoder.layer[0].eval()
    frozen, with_gradient, *_ = model.parameters()
    frozen.requires_grad_(False)
    with_gradient.grad = torch.ones_like(with_gradient)
    return model


def test_the_model_is_left_as_it_was() -> None:
    model = uneven_model()
    before = everything(model)
    importance(model, make_data(), NUMERICS)
    assert everything(model) == before


def test_the_model_is_left_as_it_was_after_an_error() -> None:
    model, data = uneven_model(), make_data()
    before = everything(model)
    data.ids[-1] = 10**6  # outside the vocabulary
    with pytest.raises(IndexError):
        importance(model, data, NUMERICS, batch_size=2)
    assert everything(model) == before


def test_no_parameter_has_a_gradient_or_a_graph_on_the_way() -> None:
    model = make_model()
    seen: list[tuple[bool, bool]] = []
    layer = model.bert.encoder.layer[0]
    layer.attention.self.value.register_forward_hook(lambda *_: seen.append((True, _[2].requires_grad)))
    layer.attention.output.dense.register_forward_hook(lambda *_: seen.append((False, _[2].requires_grad)))
    importance(model, make_data(3), NUMERICS)
    assert seen == [(True, False), (False, True)]
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_does_not_matter_whether_the_caller_records_gradients(mode: Any) -> None:
    model, data = make_model(), make_data()
    expected = importance(model, data, NUMERICS)
    with mode():
        assert importance(model, data, NUMERICS) == expected


def test_a_wrapped_model_has_the_same_importance() -> None:
    model, data = make_model(), make_data()
    assert importance(nn.DataParallel(model), data, NUMERICS) == importance(model, data, NUMERICS)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("family", TEXT)
def test_a_gpu_gives_the_cpus_values_twice(family: str, granularity: Any) -> None:
    model, data = make_model(family), make_data()
    on_cpu = importance(model, data, NUMERICS, granularity=granularity, batch_size=4)
    first, second = (
        importance(model, data, Numerics(device="cuda"), granularity=granularity, batch_size=4)
        for _ in range(2)
    )
    assert first == second
    assert values(first) == pytest.approx(values(on_cpu), rel=1e-3, abs=1e-5)
