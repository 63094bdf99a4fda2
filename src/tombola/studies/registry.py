"""The registry of studies, and the recipes that ship: a study's name to its recipe's model and to what makes it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.errors import RecipeError, UsageError, nearest
from tombola.studies import yaml_text

if TYPE_CHECKING:
    from tombola.studies.recipe import StudyRecipe
    from tombola.studies.study import Study

SHIPPED = Path(__file__).parent.parent / "recipes"
LARGEST_RECIPE = 1_000_000


@dataclass(frozen=True)
class Kind:
    """``module`` holds ``make`` and the recipe's model; imported when it is used: listing must not load torch."""

    name: str
    about: str
    module: str
    model: str

    def read(self, settings: dict[str, Any], where: str) -> StudyRecipe:
        from tombola.studies.recipe import validated

        return validated(getattr(import_module(self.module), self.model), settings, where)

    def make(self, recipe: StudyRecipe) -> Study:
        return import_module(self.module).make(recipe)


STUDIES: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "existence",
            "up to which sparsity a task has winning tickets, and whether the controls lose",
            "tombola.studies.existence",
            "ExistenceRecipe",
        ),
        Kind(
            "transfer",
            "whether a ticket found on one task works on another",
            "tombola.studies.transfer",
            "TransferRecipe",
        ),
        Kind(
            "phases",
            "how winning, random and losing super tickets score as heads and FFNs go",
            "tombola.studies.phases",
            "PhasesRecipe",
        ),
        Kind(
            "super_tables",
            "full models against super tickets, task by task, and the submission to GLUE",
            "tombola.studies.super_tables",
            "SuperTablesRecipe",
        ),
    )
}


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe's text, read as far as YAML goes. ``name`` is its file's stem."""

    name: str
    where: str
    settings: dict[str, Any]

    @property
    def kind(self) -> Kind:
        study = self.settings.get("study")
        if study is None:
            raise RecipeError(
                "the recipe does not say which study it is for",
                where=self.where,
                todo=f"add study: … ({_known()})",
            )
        if study not in STUDIES:
            raise RecipeError(
                f"there is no study '{study}'",
                where=f"{self.where}: study",
                todo=nearest(str(study), list(STUDIES)),
            )
        return STUDIES[study]

    def read(self, changes: list[str]) -> StudyRecipe:
        """The validated recipe with what ``--set`` changes."""
        settings = yaml_text.with_changes(self.settings, changes)
        return NamedRecipe(self.name, self.where, settings).kind.read(settings, self.where)


def find_recipe(name: str) -> NamedRecipe:
    """A recipe that ships, by its name, or a file."""
    shipped = {path.stem: path for path in SHIPPED.glob("*.yaml")}
    path = Path(name)
    if name in shipped:
        path = shipped[name]
    elif not path.is_file():
        raise UsageError(
            f"there is no recipe '{name}'",
            where="RECIPE",
            todo=f"give a YAML file, or one that ships; {nearest(name, list(shipped))}",
        )
    if path.stat().st_size > LARGEST_RECIPE:
        raise RecipeError(
            "this file is too large for a recipe", where=name, todo="give a YAML file of settings"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RecipeError(
            "this is not text in UTF-8", where=name, todo="give a YAML file of settings"
        ) from None
    return NamedRecipe(path.stem, name, yaml_text.parse(text, name))


def shipped_recipes() -> list[NamedRecipe]:
    return [find_recipe(path.stem) for path in sorted(SHIPPED.glob("*.yaml"))]


def _known() -> str:
    return f"known: {', '.join(sorted(STUDIES))}"
