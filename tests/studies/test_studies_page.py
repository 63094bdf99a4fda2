"""docs/studies.md: its recipe is read, its keys exist, its commands use options that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tombola.studies.existence import ExistenceRecipe
from tombola.studies.phases import PhasesRecipe
from tombola.studies.recipe import StudyRecipe
from tombola.studies.registry import find_recipe
from tombola.studies.super_tables import SuperTablesRecipe
from tombola.studies.transfer import TransferRecipe

STUDIES = (ExistenceRecipe, TransferRecipe, PhasesRecipe, SuperTablesRecipe)
PAGE = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()


def test_the_recipe_on_the_page_is_read_as_the_page_says(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    (tmp_path / "mine.yaml").write_text(block)
    recipe = find_recipe(str(tmp_path / "mine.yaml")).read([])
    assert isinstance(recipe, ExistenceRecipe)
    assert recipe.seeds == (0, 1, 2)
    assert recipe.settings.sparsities == (0.25, 0.5)
    assert (recipe.recipe_of("stars").epochs, recipe.recipe_of("rotten-tomatoes").epochs) == (2, 1)
    assert recipe.choice("stars").data == Path("reviews.csv")


def test_every_key_in_the_tables_is_a_setting():
    known = set().union(*(model.model_fields for model in STUDIES))
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.M)
    named = [key.partition(":")[0] for row in rows for key in re.findall(r"`([^`]+)`", row)]
    assert len(named) > 15
    assert set(named) <= known


def test_every_setting_of_a_study_is_on_the_page():
    for model in (StudyRecipe, *STUDIES):
        for key in model.model_fields:
            assert f"`{key}" in PAGE or f"\n{key}:" in PAGE, key
