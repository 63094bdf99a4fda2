"""The saved, physically smaller model: made, and registered with transformers (DESIGN 5, Deployed model).

It is saved as a folder of transformers' own kind with ``model_type: "tombola_bert"``, which holds no code. Where
tombola is imported it loads like any other, and where it is not, every loader refuses it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import nn

from tombola.errors import UnsupportedModel
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import unwrapped
from tombola.models.deployed_classes import class_named, classes_of, model_class
from tombola.models.deployed_config import config_class_of, smaller_config
from tombola.models.families import FAMILIES
from tombola.models.surgery import shrink

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def smaller(model: nn.Module, mask: StructureMask) -> PreTrainedModel:
    """A copy of ``model`` without the parts that ``mask`` removes, of the class that saves and loads it.

    Head, training mode, dtype, attention implementation and the rest are the model's own; it is left untouched.
    A model that lacks parts already may lose more; the mask is always about the full one.
    """
    plain: Any = unwrapped(model)
    mask.check_leaves_something()
    made = _deployable(type(plain))
    config = smaller_config(plain.config, mask)
    config.architectures = [made.__name__]
    # Modules hold the configuration too: with this memo the copy's hold the new one.
    result: Any = copy.deepcopy(plain, {id(plain.config): config})
    shrink(result, mask)
    # Nothing else differs between this and an object built by the class, and so nothing of the model can be forgotten.
    result.__class__ = made
    return result


def _deployable(plain: type) -> Any:
    made = model_class(plain)
    if class_named(made.__name__, where=plain.__name__) is not made:
        raise UnsupportedModel(
            "only models of transformers' own classes can be saved so that others can load them",
            where=f"{plain.__module__}.{plain.__name__}",
            todo="cut an object of the class that it is derived from",
        )
    return made


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
        _register_tokenizer(family, config_class)


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


def _register_tokenizer(family: str, config_class: Any) -> None:
    """The tokenizer is the full model's own, also where the folder does not name its class."""
    from transformers import CONFIG_MAPPING, AutoTokenizer
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING

    tokenizer: Any = TOKENIZER_MAPPING.get(CONFIG_MAPPING[family], None)
    if tokenizer is not None:
        AutoTokenizer.register(config_class, tokenizer_class=tokenizer, exist_ok=True)
