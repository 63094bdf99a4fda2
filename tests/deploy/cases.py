"""Tiny tickets with a base model behind them, as `bench` and `export` meet them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tombola.masks.structure_mask import StructureMask
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of, backbone_parameters
from tombola.models.build import HeadSpec, build_model, load_tokenizer, pretrained_fingerprint
from tombola.models.deployed import smaller
from tombola.models.resolve import resolve
from tombola.ticket import Ticket

#: Of two layers with two heads each: layer 0 loses all its heads, layer 1 one of them and its FFN.
HEADLESS = StructureMask(((False, False), (True, False)), (True, False))


def facts_of(base: Path) -> dict[str, Any]:
    anatomy = anatomy_of(full_model(base))
    return {
        "model": {
            "source": str(base),
            "fingerprint": pretrained_fingerprint(resolve(str(base))),
            "family": anatomy.family,
            "prefix": anatomy.prefix,
            "optional": [],
        },
        "task": {"name": "mine", "kind": "classification", "labels": ["bad", "good"], "own_files": True},
        "settings": {"recipe": {"max_length": 16}},
    }


def full_model(base: Path) -> Any:
    return build_model(resolve(str(base)), HeadSpec("classification", 2), head_seed=0).eval()


def structured_folder(base: Path, folder: Path, *, with_tokenizer: bool = True) -> Path:
    """A super ticket with its model: random, but with answers of a size that a difference would show in."""
    facts, model = facts_of(base), full_model(base)
    facts["model"]["sizes"] = asdict(anatomy_of(model).structure_sizes)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(10.0)
    tokenizer = load_tokenizer(resolve(str(base))) if with_tokenizer else None
    Ticket(HEADLESS, **facts).save_pretrained(folder, model=smaller(model, HEADLESS), tokenizer=tokenizer)
    return folder


def unstructured_folder(base: Path, folder: Path, *, with_model: bool = False) -> Path:
    """Half of the weights of each matrix are gone."""
    model = full_model(base)
    anatomy = anatomy_of(model)
    mask = WeightMask(
        {name: (torch.arange(_size(shape)) % 2 == 0).reshape(shape) for name, shape in anatomy.shapes.items()}
    )
    with torch.no_grad():
        for name in mask.names:
            backbone_parameters(model)[name].masked_fill_(~mask[name], 0.0)
    Ticket(mask, **facts_of(base)).save_pretrained(folder, model=model if with_model else None)
    return folder


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.tensor(shape).prod())
