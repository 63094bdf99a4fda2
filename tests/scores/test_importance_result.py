"""The result of scoring: normalised within layers, and the same after JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.scores.tiny_scoring import NUMERICS, make_data, make_model

from tombola.errors import CorruptArtifact
from tombola.scores.importance import GRANULARITIES, Importance, importance

FOUND = Importance(((3.0, 4.0), (0.0, 0.0), (0.0, 2e-200)), (0.5, 0.1, 7.0), "example", 9)


def test_heads_are_normalised_within_their_layer() -> None:
    assert FOUND.normalised_heads() == ((0.6, 0.8), (0.0, 0.0), (0.0, 1.0))


def test_json_brings_back_the_same() -> None:
    model = make_model()
    for granularity in GRANULARITIES:
        found = importance(model, make_data(4), NUMERICS, granularity=granularity, batch_size=2)
        value = json.loads(json.dumps(found.to_json()))
        assert ("batch_size" in value) == (granularity == "batch")
        assert Importance.from_json(value) == found


@pytest.mark.parametrize(
    "change",
    [
        {"heads": []},
        {"heads": [[1.0], [1.0]]},
        {"heads": [[1.0], [-1.0], [1.0]]},
        {"heads": "one"},
        {"heads": [[1.0], ["1"], [1.0]]},
        {"ffns": [1.0, 2.0, float("nan")]},
        {"ffns": [1.0, 2.0, True]},
        {"ffns": None},
        {"granularity": "sentence"},
        {"granularity": "batch"},
        {"batch_size": 3},
        {"granularity": "batch", "batch_size": 0},
        {"examples": 0},
        {"examples": 1.5},
        {"more": 1},
    ],
)
def test_damaged_json_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptArtifact) as caught:
        Importance.from_json({**FOUND.to_json(), **change}, where="importance.json")
    assert caught.value.where == "importance.json"


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(CorruptArtifact):
        Importance.from_json([FOUND.to_json()])
