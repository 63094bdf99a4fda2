"""The shuffled control: the same values in other places, and nothing else touched."""

import pytest
import torch
from tests.tiny import SMALL, tiny_folder

from tombola.errors import MaskMismatch, RecipeError
from tombola.models.anatomy import anatomy_of
from tombola.models.build import HeadSpec, build_model, pretrained_state
from tombola.models.resolve import resolve
from tombola.models.starts import layer_order, shuffled

TWO = HeadSpec("classification", 2)
LAYERS = {"bert": "num_hidden_layers", "distilbert": "n_layers", "gpt2": "n_layer"}


def a_start(folder, family="bert", layers=4):
    """θ0 of another value everywhere, so that every move shows."""
    source = resolve(str(tiny_folder(folder, family, **{LAYERS.get(family, LAYERS["bert"]): layers})))
    generator = torch.Generator().manual_seed(0)
    state = {n: torch.randn(w.shape, generator=generator) for n, w in pretrained_state(source).items()}
    return source, anatomy_of(build_model(source, TWO, head_seed=0)), state


@pytest.mark.parametrize("family", sorted(set(SMALL) - {"modernbert"}))
def test_layers_move_as_blocks(family, tmp_path):
    source, anatomy, state = a_start(tmp_path / family, family)
    new = shuffled(state, anatomy, seed=1)
    assert list(new) == list(state)
    order = layer_order(4, seed=1)
    assert sorted(order) == [0, 1, 2, 3] != order
    for name, weight in new.items():
        home = next((layer for layer in anatomy.layers if name.startswith(layer.path + ".")), None)
        donor = name
        if home is not None:
            donor = name.replace(home.path, anatomy.layers[order[home.index]].path)
        assert torch.equal(weight, state[donor]), name
    build_model(source, TWO, start=new, head_seed=0)


def test_layers_with_other_parts_cannot_change_places(tmp_path):
    _, anatomy, state = a_start(tmp_path / "modernbert", "modernbert")
    with pytest.raises(MaskMismatch, match=r"layers \d and 0 differ(.|\n)*attn_norm(.|\n)*within"):
        shuffled(state, anatomy, seed=1)


def test_layer_orders():
    assert layer_order(1, 0) == [0]
    assert layer_order(0, 0) == []
    assert all(layer_order(2, seed) == [1, 0] for seed in range(20))
    orders = [tuple(layer_order(3, seed)) for seed in range(200)]
    assert len(set(orders)) == 5
    assert (0, 1, 2) not in orders
    assert layer_order(12, 5) == layer_order(12, 5) != layer_order(12, 6)


def test_within_keeps_the_values_of_each_tensor(tmp_path):
    _, anatomy, state = a_start(tmp_path / "bert")
    new = shuffled(state, anatomy, seed=1, how="within")
    for name, weight in new.items():
        assert torch.equal(weight, state[name]) == (name not in anatomy.prunable_names), name
        assert torch.equal(weight.flatten().sort().values, state[name].flatten().sort().values)
    other = shuffled(state, anatomy, seed=2, how="within")
    assert not torch.equal(new["pooler.dense.weight"], other["pooler.dense.weight"])
    again = shuffled(state, anatomy, seed=1, how="within")
    assert all(torch.equal(new[name], again[name]) for name in new)


@pytest.mark.parametrize("how", ["layers", "within"])
def test_the_given_start_is_left_alone(tmp_path, how):
    """Trap 1, for controls: neither overwritten nor shared."""
    _, anatomy, state = a_start(tmp_path / "bert")
    kept = {name: weight.clone() for name, weight in state.items()}
    new = shuffled(state, anatomy, seed=1, how=how)
    for weight in new.values():
        weight.zero_()
    assert all(torch.equal(state[name], kept[name]) for name in state)


def test_mistakes_are_named(tmp_path):
    _, anatomy, state = a_start(tmp_path / "bert", layers=2)
    with pytest.raises(RecipeError, match="did you mean 'layers'"):
        shuffled(state, anatomy, 0, how="layer")  # type: ignore[arg-type]
    with pytest.raises(MaskMismatch, match="pooler"):
        shuffled({n: w for n, w in state.items() if "pooler" not in n}, anatomy, 0, how="within")
    state["encoder.layer.1.output.dense.weight"] = torch.zeros(16, 30)
    with pytest.raises(MaskMismatch, match=r"layers 0 and 1(.|\n)*encoder.layer.0.output.dense.weight"):
        shuffled(state, anatomy, 0)
