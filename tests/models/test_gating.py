"""Gates on the full model, against the same zeros written into its weights."""

from copy import deepcopy

import pytest
import torch
from tests.tiny import CLASSIFIERS, random_batch, random_model
from torch import nn

from tombola.errors import MaskMismatch, UnsupportedModel
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import anatomy_of, backbone_of, backbone_parameters, module_at
from tombola.models.families import FAMILIES
from tombola.models.gating import gated
from tombola.models.surgery import shrink

MASK = StructureMask(((True, False, False, True), (False, True, False, False)), (False, True))


def classifier(family: str = "bert", **options) -> nn.Module:
    return random_model(CLASSIFIERS[family], family, **options)


def logits(model: nn.Module, family: str) -> torch.Tensor:
    with torch.no_grad():
        return model(**random_batch(family)).logits


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def with_zeros(model: nn.Module, mask: StructureMask) -> nn.Module:
    """The same function a third way: no hooks, all modules there, zeros where a head writes its context."""
    model = deepcopy(model)
    anatomy, family = anatomy_of(model), FAMILIES[anatomy_of(model).family]
    with torch.no_grad():
        for part in anatomy.layers:
            layer = module_at(backbone_of(model), part.path)
            weight = module_at(layer, family.matrices["attention_output"]).weight
            by_head = (weight if family.transposed else weight.T).unflatten(0, (part.heads, part.head_size))
            by_head[~torch.tensor(mask.heads[part.index])] = 0
            if not mask.ffns[part.index]:
                for weight in module_at(layer, family.matrices["output"]).parameters():
                    weight.zero_()
    return model


def test_every_family_is_here():
    assert set(CLASSIFIERS) == set(FAMILIES)


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_a_gate_is_a_zero_where_the_part_writes(family):
    model = classifier(family)
    before = logits(model, family)
    with gated(model, MASK):
        masked = logits(model, family)
    assert torch.allclose(masked, logits(with_zeros(model, MASK), family), atol=1e-6)
    assert (masked - before).abs().max() > 1e-3
    assert torch.equal(logits(model, family), before)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("part", ["ffn", 0, 1, 2, 3])
def test_every_single_gate_matters(layer, part):
    heads = [[part != head or layer != index for head in range(4)] for index in range(2)]
    mask = StructureMask(
        tuple(map(tuple, heads)), tuple(part != "ffn" or layer != index for index in range(2))
    )
    model = classifier()
    with gated(model, mask):
        masked = logits(model, "bert")
    assert torch.allclose(masked, logits(with_zeros(model, mask), "bert"), atol=1e-6)
    assert (masked - logits(model, "bert")).abs().max() > 1e-4


def test_open_gates_change_no_bit():
    model = classifier()
    with gated(model, StructureMask.full([4, 4])):
        assert hooks_of(model) == 0
        masked = logits(model, "bert")
    assert torch.equal(masked, logits(model, "bert"))


def test_no_hook_is_left_behind_after_errors_neither():
    model = classifier()
    with gated(model, MASK):
        assert hooks_of(model) == 3
    assert hooks_of(model) == 0
    with pytest.raises(RuntimeError, match="out of luck"), gated(model, MASK):
        raise RuntimeError("out of luck")
    assert hooks_of(model) == 0


def test_weights_behind_closed_gates_get_no_gradient():
    model = classifier()
    with gated(model, MASK):
        model(**random_batch("bert", labels=True)).loss.backward()
    gradients = {name: weight.grad for name, weight in backbone_parameters(model).items()}
    for name in ("query.weight", "value.bias"):
        by_head = gradients[f"encoder.layer.0.attention.self.{name}"].unflatten(0, (4, 4))
        moved = by_head.flatten(1).abs().amax(1)
        assert not moved[[1, 2]].any()
        assert moved[[0, 3]].all()
    columns = (
        gradients["encoder.layer.1.attention.output.dense.weight"].unflatten(1, (4, 4)).abs().amax((0, 2))
    )
    assert (columns > 0).tolist() == [False, True, False, False]
    for name in (
        "intermediate.dense.weight",
        "intermediate.dense.bias",
        "output.dense.weight",
        "output.dense.bias",
    ):
        assert not gradients[f"encoder.layer.0.{name}"].any()
        assert gradients[f"encoder.layer.1.{name}"].any()
    assert gradients["encoder.layer.0.output.LayerNorm.bias"].any()
    assert gradients["encoder.layer.0.attention.output.dense.bias"].any()


def test_the_mask_of_another_model_is_refused():
    model = classifier()
    with (
        pytest.raises(MaskMismatch, match=r"3 heads(.|\n)*layer 1"),
        gated(model, StructureMask(((True,) * 4, (True,) * 3), (True, True))),
    ):
        raise AssertionError
    assert hooks_of(model) == 0


def test_a_model_that_was_made_smaller_has_no_gates():
    model = classifier()
    shrink(model, MASK)
    with pytest.raises(UnsupportedModel, match="full model"), gated(model, MASK):
        raise AssertionError
