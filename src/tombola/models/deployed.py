"""The saved, physically smaller model: made, registered with transformers, and loaded (DESIGN 5, Deployed model).

A folder of transformers' own kind with ``model_type: "tombola_bert"``. It holds no code; where tombola is imported it
loads like any other, and where it is not, every loader refuses it.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tombola.errors import CorruptArtifact, TombolaError, UnsupportedModel, UsageError
from tombola.files import check_tensor_file, read_json
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import unwrapped
from tombola.models.deployed_classes import class_named, classes_of, model_class
from tombola.models.deployed_config import config_class_of, smaller_config
from tombola.models.families import FAMILIES, PREFIX
from tombola.models.surgery import shrink

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CONFIG = "config.json"


def smaller(model: nn.Module, mask: StructureMask) -> PreTrainedModel:
    """A copy of ``model`` without the parts that ``mask`` removes, of the class that saves and loads it.

    Head, training mode, dtype, attention implementation and the rest are the model's own; it is left untouched.
    """
    plain: Any = unwrapped(model)
    mask.check_leaves_something()
    if is_smaller(plain):
        raise UnsupportedModel(
            "the model is a smaller one already", where=type(plain).__name__, todo="cut the full model once"
        )
    config, made = smaller_config(plain.config, mask), model_class(type(plain))
    config.architectures = [made.__name__]
    # Modules hold the configuration too: with this memo the copy's hold the new one.
    result: Any = copy.deepcopy(plain, {id(plain.config): config})
    shrink(result, mask)
    # Nothing else differs between this and an object built by the class, and so nothing of the model can be forgotten.
    result.__class__ = made
    return result


def is_smaller(model: nn.Module) -> bool:
    """Whether this is a model of ``smaller``, in whatever wrapper."""
    return hasattr(type(unwrapped(model)), "full_class")


def register() -> None:
    """Make transformers' Auto classes know our classes; a second time changes nothing."""
    from transformers import AutoConfig

    for family in FAMILIES:
        config_class = config_class_of(family)
        AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
        for auto, classes in classes_of(family).items():
            auto.register(config_class, classes[0] if len(classes) == 1 else classes, exist_ok=True)
        _register_preparation(family, config_class)


def load(folder: Path) -> PreTrainedModel:
    """The exact model in ``folder``, in its own class; everything is checked before anything is built."""
    register()
    settings = read_json(folder / CONFIG)
    where = str(folder / CONFIG)
    if not _is_ours(settings):
        raise UsageError(
            "this is no model that tombola made smaller",
            where=where,
            todo="load it with transformers: AutoModel.from_pretrained(folder)",
        )
    if "auto_map" in settings:
        raise CorruptArtifact(
            f"{CONFIG} points at code of its own (auto_map), which is never run", where=where
        )
    config, made = _checked(settings, where)
    _check_weights(made, config, folder)
    try:
        return made.from_pretrained(
            folder, config=config, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise CorruptArtifact(f"the model cannot be loaded ({error})", where=str(folder)) from None


def holds_smaller_model(folder: Path) -> bool:
    """Whether ``config.json`` in this folder is one of ours."""
    return (folder / CONFIG).is_file() and _is_ours(read_json(folder / CONFIG))


def __getattr__(name: str) -> Any:
    """Classes by name, ``TombolaBertModel``: this is where pickling between processes looks for them."""
    if name.startswith("Tombola"):
        for family in FAMILIES:
            if (config_class := config_class_of(family)).__name__ == name:
                return config_class
        try:
            return class_named(name)
        except UnsupportedModel:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _register_preparation(family: str, config_class: Any) -> None:
    """Tokenizers and image processors are the full model's own."""
    from transformers import CONFIG_MAPPING, AutoTokenizer
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING

    tokenizer = TOKENIZER_MAPPING.get(CONFIG_MAPPING[family], None)
    if tokenizer is not None:
        AutoTokenizer.register(config_class, tokenizer_class=tokenizer, exist_ok=True)


def _is_ours(settings: Any) -> bool:
    return isinstance(settings, dict) and str(settings.get("model_type", "")).startswith(PREFIX)


def _checked(settings: dict[str, Any], where: str) -> tuple[Any, Any]:
    """The configuration and the class that a ``config.json`` means."""
    family = settings["model_type"].removeprefix(PREFIX)
    if family not in FAMILIES:
        raise UnsupportedModel(
            f"smaller models of type {family[:40]!r} are not known",
            where=where,
            todo="upgrade: pip install --upgrade tombola",
        )
    named = settings.get("architectures")
    if not (isinstance(named, list) and len(named) == 1 and isinstance(named[0], str)):
        raise CorruptArtifact("it does not say which class it is of", where=f"{where}: architectures")
    made = class_named(named[0], where=f"{where}: architectures")
    if made.config_class is not config_class_of(family):
        raise CorruptArtifact(f"{named[0]} is no class of {family} models", where=f"{where}: architectures")
    try:
        return config_class_of(family).from_dict(dict(settings)), made
    except TombolaError as error:
        error.where = f"{where.removesuffix(CONFIG)}{error.where}"
        raise
    except Exception as error:  # whatever transformers' own checks think of a stranger's settings
        raise CorruptArtifact(f"no model can have these settings ({error})", where=where) from None


def _check_weights(made: Any, config: Any, folder: Path) -> None:
    """The files must hold the very weights that the configuration asks for, before memory is asked for any."""
    try:
        with torch.device("meta"):
            empty = made(copy.deepcopy(config))
    except Exception as error:
        raise CorruptArtifact(
            f"no model can have these settings ({error})", where=str(folder / CONFIG)
        ) from None
    due = {name: tuple(weight.shape) for name, weight in empty.state_dict().items()}
    found = _shapes_in(folder)
    for name in sorted(due.keys() | found.keys()):
        if name in empty.all_tied_weights_keys and name not in found:
            continue
        if due.get(name) != found.get(name):
            raise CorruptArtifact(
                f"a weight is {_shown(found.get(name))}, its configuration makes it {_shown(due.get(name))}",
                where=f"{folder}: {name}",
                todo="get the folder again from where it came",
            )


def _shapes_in(folder: Path) -> Mapping[str, tuple[int, ...]]:
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        check_tensor_file(path)
        try:
            with safe_open(path, framework="pt") as file:
                shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
        except SafetensorError as error:
            raise CorruptArtifact(f"{path.name} is damaged ({error})", where=str(path)) from None
    return shapes


def _shown(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else "×".join(map(str, shape)) or "one number"
