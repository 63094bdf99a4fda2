"""The magnitude score is |w| of the named weights, and no alias of them (SPEC 5, trap 1)."""

import pytest
import torch

from tombola.errors import MaskMismatch
from tombola.scores.magnitude import magnitude


def test_absolute_values_of_the_named_weights() -> None:
    state = {"w": torch.nn.Parameter(torch.tensor([-2.0, 0.0, 1.0])), "bias": torch.ones(1)}
    scores = magnitude(state, ["w"])
    assert list(scores) == ["w"]
    assert scores["w"].tolist() == [2.0, 0.0, 1.0]
    assert not scores["w"].requires_grad


def test_scores_do_not_follow_the_live_weights() -> None:
    weight = torch.tensor([1.0, 2.0])
    scores = magnitude({"w": weight}, ["w"])
    weight.zero_()
    assert scores["w"].tolist() == [1.0, 2.0]


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(MaskMismatch) as caught:
        magnitude({"query.weight": torch.ones(1)}, ["query.weigth"])
    assert caught.value.where == "query.weigth"
    assert "query.weight" in caught.value.todo
