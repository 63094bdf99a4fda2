"""Recipes as text: what is refused, with which hint, and how --set changes them."""

from __future__ import annotations

import pytest

from tombola.errors import RecipeError, UsageError
from tombola.studies.registry import STUDIES, find_recipe, shipped_recipes
from tombola.studies.yaml_text import parse, with_changes

TEXT = """
study: existence
model: minilm-l6
tasks:
  cola: {max_train: 10, training: {epochs: 2}}
  mrpc:
training: {learning_rate: 1e-4, epochs: 1}
sparsities: [30%, 0.5]
seeds: [3, 7]
"""


@pytest.fixture
def recipe_file(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return str(path)

    return write


def read(file: str, *changes: str):
    return find_recipe(file).read(list(changes))


def test_a_recipe_is_read(recipe_file):
    recipe = read(recipe_file(TEXT))
    assert recipe.settings.sparsities == (0.3, 0.5)
    assert recipe.seeds == (3, 7)
    assert recipe.recipe_of("cola").learning_rate == 1e-4, "YAML 1.1 would read 1e-4 as text"


def test_a_task_overrules_the_study_which_overrules_the_tasks_own_recipe(recipe_file):
    recipe = read(recipe_file(TEXT))
    assert (recipe.recipe_of("cola").epochs, recipe.recipe_of("mrpc").epochs) == (2, 1)
    assert recipe.recipe_of("mrpc").batch_size == 32


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("study: existence", "study: existense", "did you mean 'existence'"),
        ("study: existence", "", "does not say which study"),
        ("model: minilm-l6", "modle: minilm-l6", "unknown setting 'modle'"),
        ("max_train: 10", "max_trian: 10", "did you mean 'max_train'"),
        ("learning_rate: 1e-4", "learning_rat: 1e-4", "did you mean 'learning_rate'"),
        ("epochs: 1", "epochs: many", "epochs"),
        ("max_train: 10", "max_train: 0", "tasks.cola.max_train is 0"),
        ("[30%, 0.5]", "[30, 0.5]", "not a share: write 0.3 or 30%"),
        ("seeds: [3, 7]", "seeds: 0", "seeds"),
        ("seeds: [3, 7]", "seeds: [3, 3]", "different"),
        ("seeds: [3, 7]", "seeds: [3, 7]\nseeds: 2", "stands here twice"),
        ("seeds: [3, 7]", "seeds: [3, 7", "not a recipe in YAML"),
        ("seeds: [3, 7]", "method: impp", "there is no method"),
        ("  cola: {max_train: 10, training: {epochs: 2}}", "  colla: {}", "no task"),
        ("  cola: {max_train: 10, training: {epochs: 2}}", "  1: {}", "not a word"),
        (
            "study: existence",
            "study: existence\nwhat: !!python/object/apply:os.system [ls]",
            "not a recipe in YAML",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(recipe_file, old, new, said):
    assert old in TEXT
    with pytest.raises((RecipeError, UsageError)) as caught:
        read(recipe_file(TEXT.replace(old, new)))
    assert said in str(caught.value)
    assert "mine.yaml" in str(caught.value)


def test_missing_settings_are_named(recipe_file):
    with pytest.raises(RecipeError, match="'model' is missing"):
        read(recipe_file("study: existence\ntasks: {cola: {}}"))


@pytest.mark.parametrize(
    ("text", "said"), [("", "list of settings"), ("- a", "list of settings"), ("\x00", "YAML")]
)
def test_files_that_are_no_recipe(recipe_file, text, said):
    with pytest.raises(RecipeError, match=said):
        read(recipe_file(text))


def test_a_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "latin.yaml").write_bytes("about: Größe".encode("latin-1"))
    with pytest.raises(RecipeError, match="UTF-8"):
        find_recipe(str(tmp_path / "latin.yaml"))


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'existence-minilm'"):
        find_recipe("existence-minilmm")


def test_set_changes_what_it_names_and_nothing_else(recipe_file):
    file = recipe_file(TEXT)
    recipe = read(
        file, "seeds=5", "tasks.cola.max_train=99", "training.learning_rate=2e-5", "tasks.mrpc.max_eval=7"
    )
    assert recipe.seeds == (0, 1, 2, 3, 4)
    assert recipe.choice("cola").max_train == 99
    assert recipe.choice("mrpc").max_eval == 7
    assert recipe.recipe_of("cola").learning_rate == 2e-5
    assert recipe.recipe_of("cola").epochs == 2
    assert recipe.model == "minilm-l6"


@pytest.mark.parametrize("change", ["seeds", "=3", "a..b=3", "model.x=3"])
def test_set_that_sets_nothing_is_refused(change):
    with pytest.raises(UsageError, match=r"sets nothing|no settings inside"):
        with_changes(parse(TEXT, "here"), [change])


def test_set_cannot_add_what_the_recipe_does_not_know(recipe_file):
    with pytest.raises(RecipeError, match="did you mean 'seeds'"):
        read(recipe_file(TEXT), "seedz=3")


def test_every_shipped_recipe_is_whole():
    found = shipped_recipes()
    assert found
    for recipe in found:
        assert recipe.read([]).about, recipe.name
    assert {recipe.kind.name for recipe in found} == set(STUDIES)
