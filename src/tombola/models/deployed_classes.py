"""The classes of physically smaller models, made from transformers' own ones (DESIGN 5, Deployed model).

Every class that transformers' Auto classes know for a family gets its counterpart here, in one way: build the
parent in full size, which costs nothing where weights are loaded, and shrink it. Names of weights stay the parent's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from tombola.errors import CorruptArtifact, UnsupportedModel
from tombola.models.anatomy import relative_name
from tombola.models.deployed_config import config_class_of, named
from tombola.models.families import FAMILIES, family_of
from tombola.models.surgery import shrink


@cache
def model_class(plain: type) -> Any:
    """``TombolaBertForSequenceClassification`` for transformers' ``BertForSequenceClassification``."""
    if hasattr(plain, "full_class"):
        return plain
    parent: Any = plain
    family = family_of(parent.config_class.model_type, where=parent.__name__)

    class Smaller(parent):
        config_class = config_class_of(family.model_type)
        full_class = parent

        def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(config, *arguments, **options)
            shrink(self, config.structure)

        @classmethod
        def from_pretrained(cls, name: Any, *arguments: Any, **options: Any) -> Any:
            """As transformers does, but never with layers that the file lacks or has in other sizes."""
            wanted = options.pop("output_loading_info", False)
            model, info = super().from_pretrained(name, *arguments, output_loading_info=True, **options)
            _refuse_other_layers(info, model.base_model_prefix, family.layer, str(name))
            return (model, info) if wanted else model

    Smaller.__doc__ = f"{parent.__name__} with fewer heads and FFNs, uneven from layer to layer."
    return named(Smaller, f"Tombola{parent.__name__}")


@cache
def classes_of(family: str) -> dict[Any, tuple[Any, ...]]:
    """Auto class -> our classes of a family, its default first; whatever transformers has, and no list of our own."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    plain_config, found = CONFIG_MAPPING[family], {}
    for name in modeling_auto.__all__:
        auto: Any = getattr(modeling_auto, name)
        mapping = getattr(auto, "_model_mapping", None)
        classes = mapping.get(plain_config, None) if mapping is not None else None
        if classes is not None:
            several = classes if isinstance(classes, Iterable) else (classes,)
            found[auto] = tuple(model_class(plain) for plain in several)
    return found


def class_named(name: str, where: str = "") -> Any:
    """The class that ``architectures`` in a ``config.json`` means."""
    for family in FAMILIES:
        for classes in classes_of(family).values():
            for made in classes:
                if made.__name__ == name:
                    return made
    raise UnsupportedModel(
        f"no class that tombola makes is called {repr(name)[:80]}",
        where=where,
        todo="classes are those that transformers' Auto classes know; a newer tombola or transformers may have more",
    )


def _refuse_other_layers(info: Any, prefix: str, layer: str, where: str) -> None:
    """What transformers only warns of would be a layer with random weights, or one part less than was trained."""
    start = layer.split("{}")[0]
    mismatched = [entry[0] for entry in info["mismatched_keys"]]
    for names, reason in (
        (info["missing_keys"], "has no weights for a part that its configuration names"),
        (info["unexpected_keys"], "has weights of a part that its configuration says was removed"),
        (mismatched, "has weights of other sizes than its configuration says"),
    ):
        inside = sorted(name for name in names if relative_name(name, prefix).startswith(start))
        if inside:
            raise CorruptArtifact(
                f"the model {reason}",
                where=f"{where}: {inside[0]}",
                todo="get the folder again from where it came",
            )
