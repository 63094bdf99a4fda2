"""A tiny real BERT, fifty tiny sentences and a call of ``train`` with everything filled in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch
from tests.tiny import WORDS, tiny_bert_folder

from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of
from tombola.models.build import HeadSpec, build_model, load_tokenizer
from tombola.models.resolve import resolve
from tombola.tasks.encoding import Encoded, encode
from tombola.tasks.records import Records
from tombola.training.history import TrainingResult
from tombola.training.loop import train
from tombola.training.recipe import Numerics, Recipe
from tombola.training.sparsity import Dense

#: 50 examples in batches of 8: seven steps an epoch, the last of two examples; 21 steps in all.
RECIPE = Recipe(learning_rate=1e-3, epochs=3, batch_size=8, weight_decay=0.1, max_length=32)
NUMERICS = Numerics()


def make_folder(tmp_path: Path, **config: Any) -> Path:
    return tiny_bert_folder(tmp_path, **config)


def make_model(folder: Path, head_seed: int = 0, kind: str = "classification") -> Any:
    head = HeadSpec("classification", 2) if kind == "classification" else HeadSpec("regression", 1)
    return build_model(resolve(str(folder)), head, head_seed=head_seed)


def make_data(folder: Path, examples: int = 50, kind: str = "classification") -> Encoded:
    draw = random.Random(0)
    words = WORDS.split()
    texts = tuple(" ".join(draw.choices(words, k=draw.randint(2, 20))) for _ in range(examples))
    numbers = tuple(float(len(text)) / 50 for text in texts)
    classes = tuple(int("good" in text or len(text) > 50) for text in texts)
    records = Records(
        split="train",
        first=texts,
        second=None,
        targets=classes if kind == "classification" else numbers,
        labels=("no", "yes") if kind == "classification" else (),
    )
    return encode(records, load_tokenizer(resolve(str(folder))), 32)


def make_mask(model: Any, share: float = 0.5, seed: int = 0) -> WeightMask:
    stream = torch.Generator().manual_seed(seed)
    shapes = anatomy_of(model).shapes
    return WeightMask({name: torch.rand(shape, generator=stream) >= share for name, shape in shapes.items()})


def run(model: Any, data: Encoded, recipe: Recipe = RECIPE, **settings: Any) -> TrainingResult:
    defaults: dict[str, Any] = {"seed": 0, "purpose": "search", "sparsity": Dense(), "log_every": 5}
    return train(model, data, recipe, settings.pop("numerics", NUMERICS), **{**defaults, **settings})


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().numpy().tobytes()


def same_bytes(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(bits(first[name]) == bits(second[name]) for name in first)
