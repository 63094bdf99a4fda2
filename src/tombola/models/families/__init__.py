"""The one registry of model families, by ``config.model_type``."""

from __future__ import annotations

from tombola.errors import UnsupportedModel
from tombola.models.families import (
    bert,
    deberta_v2,
    distilbert,
    electra,
    gpt2,
    modernbert,
    roberta,
    vit,
)
from tombola.models.families.family import Family

FAMILIES: dict[str, Family] = {
    adapter.FAMILY.model_type: adapter.FAMILY
    for adapter in (bert, roberta, distilbert, electra, gpt2, deberta_v2, modernbert, vit)
}
#: A physically smaller model has its family's type behind this (see deployed_config.py).
PREFIX = "tombola_"
#: Types that cannot become a family, and why.
REFUSED: dict[str, str] = {
    "albert": "all its layers share their weights, so that no head and no FFN of one layer can be removed alone"
}


def family_of(model_type: str | None, where: str = "") -> Family:
    """The family of ``config.model_type``, or an error that lists the known ones."""
    model_type = model_type.removeprefix(PREFIX) if isinstance(model_type, str) else model_type
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    known = ", ".join(sorted(FAMILIES))
    if model_type in REFUSED:
        raise UnsupportedModel(
            f"models of type {model_type!r} are not supported: {REFUSED[model_type]}",
            where=where,
            todo=f"take one of {known}",
        )
    raise UnsupportedModel(
        f"models of type {model_type!r} are not known",
        where=where,
        todo=f"take one of {known}, or add the family: docs/add-a-family.md",
    )
