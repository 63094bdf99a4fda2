"""Recipes as text: YAML without its traps, and changes to it as people type them (``--set a.b=c``)."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tombola.errors import RecipeError, UsageError

#: YAML 1.1 reads 1e-4 as text, for want of a point.
NUMBER = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


class _Loader(yaml.SafeLoader):
    """Plain values only; a key that stands twice is a mistake and not a choice of the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not a word", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands here twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+.0123456789"))


def parse(text: str, where: str) -> dict[str, Any]:
    """The mapping that a recipe's text stands for."""
    try:
        value = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f"{where}, line {error.problem_mark.line + 1}" if error.problem_mark else where
        raise RecipeError(
            f"this is not a recipe in YAML: {error.problem}", where=line, todo="mend that line"
        ) from None
    except yaml.YAMLError as error:
        raise RecipeError(f"this is not a recipe in YAML: {error}", where=where) from None
    if not isinstance(value, dict):
        raise RecipeError(
            "a recipe is a list of settings 'key: value'", where=where, todo="see `tombola recipes`"
        )
    return value


def with_changes(settings: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """``settings`` with every ``a.b=c`` of ``changes`` put in; values are read as YAML."""
    for change in changes:
        path, equals, text = change.partition("=")
        keys = [key.strip() for key in path.split(".")]
        if not equals or not all(keys):
            raise UsageError(
                f"'{change}' sets nothing",
                where="--set",
                todo="write --set key=value or --set tasks.rte.max_train=500",
            )
        settings = _changed(settings, keys, parse(f"value: {text}", f"--set {change}")["value"], change)
    return settings


def _changed(settings: dict[str, Any], keys: list[str], value: Any, change: str) -> dict[str, Any]:
    if len(keys) == 1:
        return {**settings, keys[0]: value}
    inner = settings.get(keys[0]) or {}
    if not isinstance(inner, dict):
        raise UsageError(
            f"'{keys[0]}' has no settings inside it", where=f"--set {change}", todo=f"write --set {keys[0]}=…"
        )
    return {**settings, keys[0]: _changed(inner, keys[1:], value, change)}
