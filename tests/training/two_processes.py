"""What each process of test_distributed.py does; also done alone there, to compare."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.tiny import tiny_config
from transformers import BertForSequenceClassification

from tombola.errors import DataError
from tombola.files import write_tensors
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of, backbone_parameters, unwrapped
from tombola.tasks.encoding import Encoded
from tombola.training.distributed import Team, joined
from tombola.training.loop import train
from tombola.training.recipe import Numerics, Recipe
from tombola.training.sparsity import FixedMask

#: 11 examples in batches of 5: batches of 5, 5 and 1, so that one of two processes has nothing in the last.
EXAMPLES = 11
RECIPE = Recipe(learning_rate=5e-3, epochs=2, batch_size=5, weight_decay=0.1, max_length=32, clip=0.02)


def model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = tiny_config("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2)
    return BertForSequenceClassification(config)


def mask() -> WeightMask:
    draw = torch.Generator().manual_seed(1)
    shapes = anatomy_of(model()).shapes
    return WeightMask({name: torch.rand(shape, generator=draw) < 0.4 for name, shape in shapes.items()})


def data() -> Encoded:
    draw = np.random.default_rng(2)
    lengths = draw.integers(4, 20, EXAMPLES)
    return Encoded(
        ids=draw.integers(5, 60, lengths.sum()).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        type_ids=None,
        targets=draw.integers(0, 2, EXAMPLES),
        max_length=32,
        truncated=0,
        pad_id=0,
    )


def trained(
    numerics: Numerics, team: Team, checkpoints: Path | None = None
) -> tuple[dict[str, torch.Tensor], list]:
    """The weights after a training, and its losses and gradient norms."""
    ours = team.wrap(model())
    result = train(
        ours,
        data(),
        RECIPE,
        numerics,
        seed=3,
        purpose="search",
        sparsity=FixedMask(mask()),
        checkpoint_folder=checkpoints,
        checkpoint_every_seconds=0.0,
        log_every=1,
        ranks=team.ranks,
    )
    weights = {name: weight.detach().clone() for name, weight in unwrapped(ours).named_parameters()}
    pruned = backbone_parameters(ours)
    assert WeightMask.of_weights(pruned, mask().names) == mask(), "the weights are not the mask's"
    return weights, [[row.loss, row.gradient_norm] for row in result.log]


def train_share(value: Mapping[str, Any]) -> Any:
    """In each process: train with and without micro-batches, save the weights, answer with the logs."""
    answers = {}
    with joined(Numerics(world_size=2)) as team:
        print(f"process {team.ranks.rank} is here", flush=True)
        for name, micro_batch in (("whole", None), ("parts", 1)):
            numerics = Numerics(world_size=2, micro_batch=micro_batch)
            folder = Path(value["folder"])
            weights, answers[name] = trained(numerics, team, folder / f"checkpoints-{name}")
            write_tensors(folder / f"{name}-{team.ranks.rank}.safetensors", weights)
    return answers


def fail_in_the_second(value: Mapping[str, Any]) -> Any:
    with joined(Numerics(world_size=2)) as team:
        if not team.first:
            if value["how"] == "known":
                raise DataError("row 7 has no label", where="train.csv", todo="give it one")
            os._exit(9)
        team.wait()


def sleep_for_ever(value: Mapping[str, Any]) -> Any:
    import time

    print(os.getpid(), flush=True)
    time.sleep(600)
