"""Loading a physically smaller model from a folder that a stranger may have written (DESIGN 5, Deployed model).

What the configuration says, and which weights the files hold, is compared before anything of their size is built.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tombola.errors import CorruptArtifact, TombolaError, UnsupportedModel, UsageError
from tombola.files import check_tensor_file, read_json
from tombola.models.deployed import register
from tombola.models.deployed_classes import class_named
from tombola.models.deployed_config import config_class_of
from tombola.models.families import FAMILIES, PREFIX, family_of
from tombola.models.families.family import Family

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CONFIG = "config.json"


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
    family = family_of(config.model_type)
    found = {
        _present_name(name, family, made.base_model_prefix): shape
        for name, shape in _shapes_in(folder).items()
    }
    for name in sorted(due.keys() | found.keys()):
        if name in empty.all_tied_weights_keys and name not in found:
            continue
        if due.get(name) != found.get(name):
            raise CorruptArtifact(
                f"a weight is {_shown(found.get(name))}, its configuration makes it {_shown(due.get(name))}",
                where=f"{folder}: {name}",
                todo="get the folder again from where it came",
            )


def _present_name(name: str, family: Family, prefix: str) -> str:
    """What the model calls a weight of the file: transformers goes on saving some families under older names."""
    start = f"{prefix}." if name.startswith(f"{prefix}.") else ""
    name = name.removeprefix(start)
    for pattern, replacement in family.former_names:
        name = re.sub(pattern, replacement, name)
    return start + name


def _shapes_in(folder: Path) -> Mapping[str, tuple[int, ...]]:
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        check_tensor_file(path)
        try:
            with safe_open(path, framework="pt") as file:
                shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise CorruptArtifact(f"{path.name} is damaged ({error})", where=str(path)) from None
    return shapes


def _shown(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else "×".join(map(str, shape)) or "one number"
