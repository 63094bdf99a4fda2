"""What cannot be scored is refused in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import transformers
from tests.scores.tiny_scoring import NUMERICS, make_data, make_model
from tests.tiny import tiny_config
from torch import nn

from tombola.errors import (
    DataError,
    RecipeError,
    TombolaError,
    TrainingError,
    UnsupportedModel,
)
from tombola.masks.structure_mask import StructureMask
from tombola.models.surgery import shrink
from tombola.scores.importance import importance


def test_a_loss_that_is_not_a_number_is_told_with_its_example() -> None:
    model, data = make_model(labels=1), make_data(labels=1)
    data.targets[[6, 9]] = np.nan
    with pytest.raises(TrainingError, match="for 2 of 11 examples") as caught:
        importance(model, data, NUMERICS, batch_size=4)
    assert "example 6 " in caught.value.where


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"targets": None}, DataError, "nothing to score"),
        ({"offsets": np.zeros(1, np.int64), "targets": np.zeros(0, np.int64)}, DataError, "nothing to score"),
        ({"targets": np.full(11, 3)}, DataError, "3 outputs and the targets are classes 3 to 3"),
        ({"targets": np.full(11, -100)}, DataError, "classes -100"),
        ({"targets": np.ones(11, np.float32)}, DataError, "3 outputs and the targets are numbers"),
    ],
)
def test_data_that_do_not_fit_are_refused(changes: dict[str, Any], error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        importance(make_model(), replace(make_data(), **changes), NUMERICS)


@pytest.mark.parametrize("settings", [{"granularity": "sentence"}, {"batch_size": 0}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(RecipeError):
        importance(make_model(), make_data(), NUMERICS, **settings)


@pytest.mark.parametrize(
    "mask",
    [
        StructureMask(((True, False), (True, True)), (True, True)),
        StructureMask(((True, True), (True, True)), (True, False)),
    ],
)
def test_a_model_that_lacks_parts_is_refused(mask: StructureMask) -> None:
    model = make_model()
    shrink(model, mask)
    with pytest.raises(UnsupportedModel, match="lacks some"):
        importance(model, make_data(2), NUMERICS)


def test_a_structure_that_keeps_everything_is_whole() -> None:
    model = make_model()
    expected = importance(model, make_data(2), NUMERICS)
    model.bert.tombola_structure = StructureMask.full((2, 2))
    assert importance(model, make_data(2), NUMERICS) == expected


def model_without_layers() -> nn.Module:
    return make_model(num_hidden_layers=0)


def backbone_alone() -> nn.Module:
    return make_model().bert


def language_model() -> nn.Module:
    return transformers.AutoModelForMaskedLM.from_config(tiny_config())


def chunked() -> nn.Module:
    return make_model(chunk_size_feed_forward=1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (model_without_layers, "no attention heads"),
        (backbone_alone, "no logits"),
        (language_model, "no logits"),
        (chunked, "more than once"),
        (lambda: nn.Linear(2, 2), "not known"),
    ],
)
def test_a_model_that_cannot_be_scored_is_refused(make: Any, text: str) -> None:
    with pytest.raises(TombolaError, match=text):
        importance(make(), make_data(2), NUMERICS)
