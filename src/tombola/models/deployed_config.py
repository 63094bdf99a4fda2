"""What the ``config.json`` of a physically smaller model says, and the check of what a stranger's says (DESIGN 5).

In memory the sizes of such a configuration are those of the full model, from which transformers' own class is
built before ``shrink`` takes parts away. In the file they stand per layer, and at their usual place stands a
sentence: a loader that does not know tombola then fails at once, and says what to do instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tombola.errors import CorruptArtifact
from tombola.masks.structure_mask import StructureMask
from tombola.models.families import FAMILIES, PREFIX, family_of
from tombola.models.families.family import Family

FORMAT = 1
LOAD_WITH = "tombola.load"
#: Stands where plain classes look for numbers. A zero would do for most of them, but a caller who sets another
#: number (``from_pretrained(folder, num_attention_heads=12)``) would get past it; nobody gets past a sentence.
ELSEWHERE = f"differs by layer: load with {LOAD_WITH}"
#: The sizes of each layer. transformers' own ``per_layer_config`` means something else, and its Trainer reads every
#: checkpoint's configuration as one of no family, which such a key would break.
LAYERS = "layer_sizes"
#: No size of a model comes near this; a stranger's file must not ask for the whole machine.
LARGEST = 2**24
#: What configurations call the width of an FFN; one of them is a field of every family's.
INNER_NAMES = ("intermediate_size", "hidden_dim", "n_inner")

_SECTION = {"format", "base_model_type", "load_with", "full", "structure"}


@cache
def config_class_of(family: str) -> Any:
    """``TombolaBertConfig`` for ``"bert"``: transformers' configuration of the family, and which parts are left."""
    from transformers import CONFIG_MAPPING

    parent: Any = CONFIG_MAPPING[family]

    class Smaller(parent):
        model_type = f"{PREFIX}{family}"
        tombola: Any = None
        has_no_defaults_at_init = True  # transformers 5.17 would make one of no model, to compare with

        def __init__(self, **settings: Any) -> None:
            uniform = uniform_settings(settings, family, type(self))
            super().__init__(**uniform)
            _check_sizes(self, settings, FAMILIES[family])

        @property
        def structure(self) -> StructureMask:
            """Which heads and FFNs of the full model are left."""
            return StructureMask.from_json(self.tombola["structure"])

        def to_dict(self) -> dict[str, Any]:
            return _written(super().to_dict(), self)

    Smaller.__doc__ = f"{parent.__name__} of a model with fewer heads and FFNs, uneven from layer to layer."
    return named(Smaller, f"Tombola{parent.__name__}")


def smaller_config(plain: Any, mask: StructureMask) -> Any:
    """The configuration of the ``plain`` one's model after ``mask`` took parts away."""
    family = family_of(plain.model_type)
    sizes = family.sizes(plain)
    mask.check_against((sizes.heads,) * sizes.layers, where=f"{family.model_type} model")
    chosen = config_class_of(family.model_type)
    heads, inner = _own_names(chosen)
    settings = plain.to_dict()
    settings["tombola"] = {
        "format": FORMAT,
        "base_model_type": family.model_type,
        "load_with": LOAD_WITH,
        "full": {"num_attention_heads": getattr(plain, heads), "intermediate_size": getattr(plain, inner)},
        "structure": mask.to_json(),
    }
    settings[LAYERS] = _layers_of(mask, sizes.inner)
    settings["attention_head_size"] = sizes.head_size
    config = chosen(**settings)
    config._attn_implementation = plain._attn_implementation
    return config


def uniform_settings(settings: Mapping[str, Any], family: str, config_class: Any) -> dict[str, Any]:
    """``config.json`` with the sizes of the full model at their usual places; refuses what cannot be meant."""
    section = _checked_section(settings.get("tombola"), family)
    mask = StructureMask.from_json(section["structure"], where="config.json: tombola: structure")
    if mask.removes_everything:
        raise CorruptArtifact(
            "the structure leaves no part of the model", where="config.json: tombola: structure"
        )
    if "per_layer_config" in settings:
        raise CorruptArtifact(
            f"the sizes of the layers stand in {LAYERS}, not in per_layer_config", where="config.json"
        )
    for name, value in settings.items():
        if type(value) is int and abs(value) > LARGEST:
            raise CorruptArtifact(f"no model has a {str(name)[:40]} of {value}", where="config.json")
    heads, inner = _own_names(config_class)
    uniform = {name: value for name, value in settings.items() if name not in _REPLACED}
    uniform[heads] = section["full"]["num_attention_heads"]
    uniform[inner] = section["full"]["intermediate_size"]
    if set(mask.heads_per_layer) != {uniform[heads]}:
        raise CorruptArtifact(
            f"the structure is about other heads than the full model's {uniform[heads]} a layer",
            where="config.json: tombola",
        )
    return uniform


#: Keys of the file that are not those of the full model's configuration.
_REPLACED = {LAYERS, "num_attention_heads", "intermediate_size", "attention_head_size"}


def named(made: Any, name: str) -> Any:
    """A class made here under the name by which it is found again in ``tombola.models.deployed``."""
    made.__name__ = made.__qualname__ = name
    made.__module__ = "tombola.models.deployed"
    return made


def _own_names(config_class: Any) -> tuple[str, str]:
    """What the family's configuration calls the number of heads and the width of an FFN."""
    fields = config_class.__dataclass_fields__
    heads = config_class.attribute_map.get("num_attention_heads", "num_attention_heads")
    return heads, next(name for name in INNER_NAMES if name in fields)


def _layers_of(mask: StructureMask, inner: int) -> list[dict[str, int]]:
    return [
        {"num_attention_heads": len(mask.kept_heads(layer)), "intermediate_size": inner if ffn else 0}
        for layer, ffn in enumerate(mask.ffns)
    ]


def _written(settings: dict[str, Any], config: Any) -> dict[str, Any]:
    """The full model's settings as ``config.json`` has them."""
    heads, inner = _own_names(type(config))
    sizes = FAMILIES[config.tombola["base_model_type"]].sizes(config)
    return {
        **settings,
        heads: ELSEWHERE,
        inner: ELSEWHERE,
        "attention_head_size": sizes.head_size,
        LAYERS: _layers_of(config.structure, sizes.inner),
    }


def _checked_section(section: Any, family: str) -> dict[str, Any]:
    where = "config.json: tombola"
    if not isinstance(section, dict):
        raise CorruptArtifact(
            "the configuration does not say which heads and FFNs are left",
            where=where,
            todo="get the folder again from where it came; tombola.models.deployed.smaller makes such models",
        )
    version = section.get("format")
    if type(version) is not int or version != FORMAT:
        newer = type(version) is int and version > FORMAT
        raise CorruptArtifact(
            f"the model has format {repr(version)[:40]}, this tombola reads {FORMAT}",
            where=where,
            todo="it was made by a newer tombola: pip install --upgrade tombola" if newer else "",
        )
    for key in sorted(map(str, section.keys() ^ _SECTION)):
        what = "is missing" if key in _SECTION else "means nothing here"
        raise CorruptArtifact(f"the key '{key[:40]}' {what}", where=where)
    if section["base_model_type"] != family:
        shown = repr(section["base_model_type"])[:40]
        raise CorruptArtifact(f"a model of type {PREFIX}{family} is said to be made of {shown}", where=where)
    full = section["full"]
    if not isinstance(full, dict) or full.keys() != {"num_attention_heads", "intermediate_size"}:
        raise CorruptArtifact("the sizes of the full model are missing", where=f"{where}: full")
    for name, value in full.items():
        may_lack = name == "intermediate_size" and value is None  # GPT-2's way to say 4 × hidden
        if not may_lack and not (type(value) is int and 1 <= value <= LARGEST):
            raise CorruptArtifact(f"{name} cannot be {repr(value)[:40]}", where=f"{where}: full")
    return section


def _check_sizes(config: Any, settings: Mapping[str, Any], family: Family) -> None:
    """What the file says per layer must be what the structure leaves of the full model's sizes."""
    sizes, mask = family.sizes(config), config.structure
    if sizes.layers != mask.layers:
        raise CorruptArtifact(
            f"the model has {repr(sizes.layers)[:40]} layers, its structure is about {mask.layers}",
            where="config.json: tombola: structure",
        )
    if min(sizes.hidden, sizes.head_size, sizes.inner) < 1:
        raise CorruptArtifact(
            f"a hidden size of {sizes.hidden} with {sizes.heads} heads and an FFN of {sizes.inner} is no model",
            where="config.json",
        )
    if settings.get("attention_head_size") != sizes.head_size:
        raise CorruptArtifact(
            f"attention_head_size is {repr(settings.get('attention_head_size'))[:40]}, not {sizes.head_size}",
            where="config.json",
        )
    given, due = settings.get(LAYERS), _layers_of(mask, sizes.inner)
    if not isinstance(given, list) or len(given) != len(due):
        raise CorruptArtifact(
            f"the sizes of the {len(due)} layers are missing, or of another number of layers",
            where=f"config.json: {LAYERS}",
        )
    for layer, (entry, expected) in enumerate(zip(given, due, strict=True)):
        if entry != expected:
            raise CorruptArtifact(
                f"a layer is said to be {repr(entry)[:80]}, its structure leaves {expected}",
                where=f"config.json: {LAYERS}, layer {layer}",
            )
