"""Recipes and numerics: JSON and back, counts of steps, and mistakes named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola.canonical import digest
from tombola.errors import RecipeError
from tombola.training.recipe import Numerics, Recipe


def test_the_defaults_are_the_bert_ticket_papers() -> None:
    recipe = Recipe()
    assert (recipe.learning_rate, recipe.epochs, recipe.batch_size) == (2e-5, 3, 32)
    assert (recipe.epsilon, recipe.weight_decay, recipe.warmup_share, recipe.clip) == (1e-8, 0.0, 0.0, 1.0)
    assert (recipe.optimizer, recipe.max_length) == ("adamw", 128)
    assert Numerics() == Numerics(precision="fp32", device="cpu", threads=1, world_size=1)


#: What a recipe said before early stopping and the head's dropout came: runs are stored under the hash of it.
FIRST_SETTINGS = {
    "learning_rate": 2e-5,
    "epochs": 3,
    "batch_size": 32,
    "optimizer": "adamw",
    "betas": [0.9, 0.999],
    "epsilon": 1e-8,
    "weight_decay": 0.0,
    "decoupled_decay": True,
    "decay_exempt": "none",
    "bias_correction": True,
    "warmup_share": 0.0,
    "schedule": "linear",
    "clip": 1.0,
    "max_length": 128,
    "order": "buckets",
    "padding": "longest",
}


def test_settings_added_later_are_left_out_at_their_default_so_that_identities_made_before_stay() -> None:
    assert Recipe().to_json() == FIRST_SETTINGS
    spelled_out = {
        **FIRST_SETTINGS,
        "early_stopping": False,
        "patience": 1,
        "stop_share": 0.1,
        "stop_seed": 0,
        "head_dropout": None,
    }
    assert Recipe.from_json(FIRST_SETTINGS) == Recipe.from_json(spelled_out) == Recipe()
    assert Recipe.from_json(spelled_out).to_json() == FIRST_SETTINGS


def test_settings_added_later_are_told_where_they_differ() -> None:
    recipe = Recipe(early_stopping=True, patience=2, stop_seed=7, head_dropout=0.0)
    later = {"early_stopping": True, "patience": 2, "stop_seed": 7, "head_dropout": 0.0}
    assert recipe.to_json() == {**FIRST_SETTINGS, **later}


def test_without_stopping_it_is_the_same_recipe_to_its_end() -> None:
    recipe = Recipe(epochs=6, early_stopping=True, patience=2, stop_share=0.2, stop_seed=7, head_dropout=0.3)
    assert recipe.without_stopping() == Recipe(epochs=6, head_dropout=0.3)


@pytest.mark.parametrize("setting", [{"patience": 2}, {"stop_share": 0.2}, {"stop_seed": 1}])
def test_a_setting_of_early_stopping_without_it_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match="a setting of early stopping") as caught:
        Recipe(**setting)
    assert [caught.value.where] == list(setting)


@pytest.mark.parametrize(
    "value",
    [
        Recipe(optimizer="adamax", warmup_share=0.1),
        Recipe(early_stopping=True, patience=3, head_dropout=0.3),
        Numerics(micro_batch=4),
    ],
)
def test_json_and_back(value: Recipe | Numerics) -> None:
    text = json.dumps(value.to_json())
    assert type(value).from_json(json.loads(text)) == value
    assert digest(value.to_json()) == digest(json.loads(text))


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(RecipeError, match="did you mean 'learning_rate'"):
        Recipe.from_json({"learning_rat": 1e-5})
    with pytest.raises(RecipeError, match="did you mean 'threads'"):
        Numerics.from_json({"thread": 1})


@pytest.mark.parametrize(
    "setting",
    [
        {"epochs": 0},
        {"epochs": 2.5},
        {"epochs": True},
        {"batch_size": -1},
        {"learning_rate": -1e-5},
        {"learning_rate": float("nan")},
        {"learning_rate": "2e-5"},
        {"optimizer": "sgd"},
        {"warmup_share": 1.5},
        {"betas": (0.9, 1.0)},
        {"betas": (0.9,)},
        {"clip": -1.0},
        {"epsilon": 0.0},
        {"order": "sorted"},
        {"padding": "none"},
        {"schedule": "cosine"},
        {"decay_exempt": "all"},
        {"decoupled_decay": False},
        {"early_stopping": 1},
        {"patience": 0},
        {"stop_share": 0.0},
        {"stop_share": 1.0},
        {"stop_seed": 0.5},
        {"head_dropout": 1.0},
    ],
)
def test_a_mistake_names_its_setting(setting: dict[str, Any]) -> None:
    (name,) = setting
    with pytest.raises(RecipeError) as caught:
        Recipe(**setting)
    assert caught.value.where == name
    assert caught.value.todo


@pytest.mark.parametrize(
    "setting", [{"precision": "fp16"}, {"device": "tpu"}, {"threads": 0}, {"micro_batch": 0}]
)
def test_numerics_name_their_mistakes(setting: dict[str, Any]) -> None:
    (name,) = setting
    with pytest.raises(RecipeError) as caught:
        Numerics(**setting)
    assert caught.value.where == name


@given(examples=st.integers(1, 1000), batch_size=st.integers(1, 64), epochs=st.integers(1, 4))
def test_every_example_is_in_some_step(examples: int, batch_size: int, epochs: int) -> None:
    recipe = Recipe(batch_size=batch_size, epochs=epochs)
    per_epoch = recipe.steps_per_epoch(examples)
    assert (per_epoch - 1) * batch_size < examples <= per_epoch * batch_size
    assert recipe.total_steps(examples) == epochs * per_epoch


def test_the_papers_numbers_of_steps() -> None:
    """8,576 is CoLA's printed size: 268 iterations of 32 for 8,551 examples (SPEC 2.4)."""
    assert Recipe().steps_per_epoch(8551) == 268
    assert Recipe().total_steps(67349) == 3 * 2105
    assert Recipe(warmup_share=0.1).warmup_steps(8551) == 80
