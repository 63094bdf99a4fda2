"""The one registry of model families, by ``config.model_type``."""

from __future__ import annotations

from tombola.errors import UnsupportedModel
from tombola.models.families import bert, distilbert, electra, gpt2, roberta
from tombola.models.families.family import Family

FAMILIES: dict[str, Family] = {
    adapter.FAMILY.model_type: adapter.FAMILY for adapter in (bert, roberta, distilbert, electra, gpt2)
}


def family_of(model_type: str | None, where: str = "") -> Family:
    """The family of ``config.model_type``, or an error that lists the known ones."""
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    raise UnsupportedModel(
        f"models of type {model_type!r} are not known",
        where=where,
        todo=f"take one of {', '.join(sorted(FAMILIES))}, or add the family: docs/add-a-family.md",
    )
