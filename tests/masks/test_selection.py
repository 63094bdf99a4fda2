"""Selection: exact counts, ties by position, nested masks, and agreement with torch's own pruning."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import prune

from tombola.errors import MaskMismatch, RecipeError
from tombola.masks.schedule import zeros_wanted
from tombola.masks.selection import lowest_pruned
from tombola.masks.weight_mask import WeightMask


@pytest.mark.parametrize(
    ("size", "sparsity", "zeros"),
    [
        (10, 0.7, 7),
        (10, 0.0, 0),
        (10, 1.0, 10),
        (10, 0.25, 3),  # halves go up, not to even
        (10, 0.05, 1),
        (1000, 0.0015, 2),  # 1.5 exactly, though the float 0.0015 is a little below or above
        (85_524_480, 0.7, 59_867_136),  # BERT-base
        (85_524_480, 0.9, 76_972_032),
    ],
)
def test_zeros_wanted(size: int, sparsity: float, zeros: int) -> None:
    assert zeros_wanted(size, sparsity) == zeros


@pytest.mark.parametrize("sparsity", [70, -0.1, 1.01, float("nan"), float("inf")])
def test_what_is_no_sparsity(sparsity: float) -> None:
    with pytest.raises(RecipeError):
        zeros_wanted(10, sparsity)


def test_lowest_of_one_global_ranking() -> None:
    scores = {"a": torch.tensor([[4.0, 1.0], [3.0, 9.0]]), "b": torch.tensor([2.0, 8.0])}
    m = lowest_pruned(scores, 3)
    assert m["a"].tolist() == [[True, False], [False, True]]
    assert m["b"].tolist() == [False, True]


def test_ties_go_by_position() -> None:
    scores = {"b": torch.tensor([1.0, 1.0]), "a": torch.tensor([1.0, 0.0, 1.0])}
    assert lowest_pruned(scores, 2)["a"].tolist() == [False, False, True]
    three = lowest_pruned(scores, 3)
    assert three["a"].tolist() == [False, False, False]
    assert three["b"].tolist() == [True, True]
    assert lowest_pruned(scores, 4)["b"].tolist() == [False, True]
    assert lowest_pruned(scores, 0).zeros == 0
    assert lowest_pruned(scores, 5).kept == 0


def test_nested_in_the_earlier_mask() -> None:
    """What is dropped stays dropped, however high its score: IMP's masks are nested."""
    scores = {"a": torch.tensor([9.0, 1.0, 2.0, 3.0])}
    within = WeightMask({"a": torch.tensor([False, True, True, True])})
    m = lowest_pruned(scores, 2, within)
    assert m["a"].tolist() == [False, False, True, True]
    assert m.is_subset_of(within)
    assert lowest_pruned(scores, 1, within) == within
    with pytest.raises(RecipeError, match="1 are zero already"):
        lowest_pruned(scores, 0, within)
    with pytest.raises(RecipeError):
        lowest_pruned(scores, 5, within)


def test_bad_scores_are_refused_by_name() -> None:
    good = torch.tensor([1.0, 2.0])
    for bad in (torch.tensor([1.0, float("nan")]), torch.tensor([1, 2])):
        with pytest.raises(MaskMismatch) as caught:
            lowest_pruned({"fine": good, "layer.3.weight": bad}, 1)
        assert caught.value.where == "layer.3.weight"
    with pytest.raises(MaskMismatch) as caught:
        lowest_pruned({"a": good}, 1, WeightMask.dense({"b": (2,)}))
    assert caught.value.where == "b"
    with pytest.raises(MaskMismatch) as caught:
        lowest_pruned({"a": good, "b": good}, 1, WeightMask.dense({"a": (2,)}))
    assert caught.value.where == "b"
    with pytest.raises(MaskMismatch) as caught:
        lowest_pruned({"a": good}, 1, WeightMask.dense({"a": (3,)}))
    assert caught.value.where == "a"
    with pytest.raises(MaskMismatch):
        lowest_pruned({}, 0)


def test_infinite_and_negative_scores() -> None:
    inf = float("inf")
    m = lowest_pruned({"a": torch.tensor([inf, -3.0, -inf, 0.0, -0.0])}, 3)
    assert m["a"].tolist() == [True, False, False, False, True]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_float_type(dtype: torch.dtype) -> None:
    m = lowest_pruned({"a": torch.tensor([3.0, 1.0, 2.0]).to(dtype), "b": torch.tensor([0.5, 4.0])}, 2)
    assert m["a"].tolist() == [True, False, True]
    assert m["b"].tolist() == [False, True]


def test_float64_is_not_rounded_into_ties() -> None:
    close = torch.tensor([1.0 + 2e-12, 1.0 + 1e-12], dtype=torch.float64)
    assert lowest_pruned({"a": close}, 1)["a"].tolist() == [True, False]


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.7, 0.93])
def test_equals_torch_global_unstructured(sparsity: float) -> None:
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"b": torch.nn.Linear(40, 30), "a": torch.nn.Linear(30, 50)})
    modules = [module for module in model.values() if isinstance(module, torch.nn.Linear)]
    weights = {f"{name}.weight": module.weight.detach().clone() for name, module in model.items()}  # type: ignore[union-attr]
    assert len(torch.cat([w.abs().flatten() for w in weights.values()]).unique()) == 2700  # no ties
    zeros = zeros_wanted(2700, sparsity)
    prune.global_unstructured(
        [(module, "weight") for module in modules], pruning_method=prune.L1Unstructured, amount=zeros
    )
    ours = lowest_pruned({name: weight.abs() for name, weight in weights.items()}, zeros)
    for name, module in model.items():
        assert torch.equal(ours[f"{name}.weight"], module.weight_mask.bool())  # type: ignore[union-attr]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_exact_nested_and_lowest(data: st.DataObject) -> None:
    """Against sorting in Python: exact count, nested, and nothing kept ranks below anything newly dropped."""
    values = st.lists(st.integers(-3, 3), min_size=1, max_size=15)
    scores = {name: torch.tensor(data.draw(values), dtype=torch.float32) for name in ("x", "y", "z")}
    size = sum(tensor.numel() for tensor in scores.values())
    first = data.draw(st.integers(0, size))
    second = data.draw(st.integers(first, size))
    earlier = lowest_pruned(scores, first)
    other = {name: tensor.flip(0) for name, tensor in scores.items()}
    later = lowest_pruned(other, second, within=earlier)
    assert (earlier.zeros, later.zeros) == (first, second)
    assert later.is_subset_of(earlier)
    ranking = sorted(
        (earlier[name][i].item(), other[name][i].item(), name, i)
        for name in other
        for i in range(other[name].numel())
    )
    dropped = {(name, i) for _, _, name, i in ranking[:second]}
    found = {(name, i) for name in later for i in range(later[name].numel()) if not later[name][i]}
    assert found == dropped
