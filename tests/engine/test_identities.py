"""Steps share what they say alike; what they are called does not change by it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.problems import made_up_problem

from tombola.canonical import block, canonical_json, digest
from tombola.plan.step import Step
from tombola.plan.trainings import dense_training, random_mask

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def encodable(value: Any) -> bool:
    try:
        canonical_json(value).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.dictionaries(st.text(), VALUES).filter(encodable), VALUES.filter(encodable))
def test_an_identity_is_the_hash_of_its_specification(parameters, other):
    first = Step("first", 1, {**parameters, "other": other})
    second = Step("second", 2, parameters, {"zebra": first.out("ä.json"), "ant": first.out('a"b')})
    assert first.identity == digest(first.specification)
    assert second.identity == digest(second.specification)
    assert first.parameters == {**parameters, "other": other}
    assert canonical_json(first.parameters) == canonical_json({**parameters, "other": other})


def test_equal_parts_are_one_object_and_different_types_are_not():
    problem = made_up_problem()
    first, second = dense_training(problem, 1), dense_training(problem, 2)
    assert first.parameters["recipe"] is second.parameters["recipe"]
    assert first.sources is second.sources
    masks = [random_mask(problem, zeros=5, seed=seed) for seed in (1, 2)]
    assert masks[0].parameters["shapes"] is masks[1].parameters["shapes"]
    texts = [block([value]).text for value in (1, 1.0, True, "1", [1])]
    assert texts == ["[1]", "[1.0]", "[true]", '["1"]', "[[1]]"]


def test_a_step_is_its_own_whoever_changes_what_it_was_made_of():
    parameters = {"recipe": {"epochs": 3}}
    step = Step("train", 1, parameters)
    parameters["recipe"]["epochs"] = 4
    assert step.parameters == {"recipe": {"epochs": 3}}
    assert step.identity == digest(step.specification)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"a": {1: 2}}, TypeError),
        ({"a": [b"bytes"]}, TypeError),
        ({"a": {"b": {1, 2}}}, TypeError),
        ({"a": object()}, TypeError),
        ({"a": [float("nan")]}, ValueError),
        ({"a": {"b": float("inf")}}, ValueError),
        ({1: 2}, TypeError),
    ],
)
def test_what_has_no_one_spelling_is_refused_as_ever(value, error):
    with pytest.raises(error, match=r"identities|value"):
        Step("train", 1, value)
    with pytest.raises(error):
        digest(value)
