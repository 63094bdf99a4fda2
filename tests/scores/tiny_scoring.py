"""Tiny models and examples whose heads and FFNs the tests score."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import transformers
from tests.tiny import SMALL, tiny_config

from tombola.scores.importance import Importance
from tombola.tasks.encoding import Encoded
from tombola.training.recipe import Numerics

TEXT = sorted(SMALL)
#: transformers computes its attention in one way only.
ONLY_EAGER = ("deberta-v2",)
NUMERICS = Numerics()


def make_model(family: str = "bert", labels: int = 3, attention: str | None = None, **config: Any) -> Any:
    """Weights large enough that heads differ; dropout is on, and must not be felt."""
    known = tiny_config(family, num_labels=labels, pad_token_id=0, **config)
    for name in ("initializer_range", "initializer_cutoff_factor"):
        if hasattr(known, name):
            setattr(known, name, 0.3 if name == "initializer_range" else 2.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.AutoModelForSequenceClassification.from_config(
            known, attn_implementation=attention or ("eager" if family in ONLY_EAGER else "sdpa")
        )


def make_data(examples: int = 11, labels: int = 3, longest: int = 12) -> Encoded:
    """Random ids and targets; as many lengths as there are examples allow."""
    draw = np.random.default_rng(0)
    lengths = draw.permutation(np.resize(np.arange(3, longest + 1), examples))
    targets = draw.integers(0, labels, examples) if labels > 1 else draw.random(examples, np.float32) * 5
    return Encoded(
        ids=draw.integers(5, 60, int(lengths.sum())).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        type_ids=None,
        targets=targets,
        max_length=16,
        truncated=0,
        pad_id=0,
    )


def picked(data: Encoded, rows: Any) -> Encoded:
    pieces = [data.ids[data.offsets[row] : data.offsets[row + 1]] for row in rows]
    offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    return replace(data, ids=np.concatenate(pieces), offsets=offsets, targets=data.targets[list(rows)])


def values(found: Importance) -> list[float]:
    return [score for layer in found.heads for score in layer] + list(found.ffns)
