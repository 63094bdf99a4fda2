"""One training on several processes: DistributedDataParallel through accelerate, gloo on CPU, nccl on CUDA.

Every process runs the same training with the same arguments; ``Ranks`` gives each its share of every batch,
and the wrapped model averages gradients, so that masks meet the same numbers everywhere. It is still one
training with one identity (``numerics.world_size`` is part of it): the first process alone writes.

    with joined(numerics) as team:
        result = train(team.wrap(model), data, recipe, numerics, ..., ranks=team.ranks)
        if team.first:
            ...                                   # evaluate, write, publish

``launch`` (launch.py) starts such processes on this machine; ``torchrun`` may as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import nn

from tombola.errors import RecipeError
from tombola.training.ranks import ALONE, Ranks
from tombola.training.recipe import Numerics

#: Longer than any evaluation that the first process does while the others wait for it.
PATIENCE = timedelta(hours=2)


@dataclass(frozen=True)
class Team:
    """This process among those that train together, and how to wrap a model so that gradients meet."""

    ranks: Ranks
    wrap: Callable[[nn.Module], nn.Module]

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.ranks.rank == 0

    def wait(self) -> None:
        """Until every process has come this far."""
        if self.ranks.size > 1:
            torch.distributed.barrier()


@contextmanager
def joined(numerics: Numerics) -> Iterator[Team]:
    """Join the other processes of ``numerics.world_size`` for a block; alone, nothing happens."""
    if numerics.world_size == 1:
        yield Team(ALONE, lambda model: model)
        return
    size, local_rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_RANK", 0))
    if size != numerics.world_size:
        raise RecipeError(
            f"this training is for {numerics.world_size} processes, this is one of {size}",
            where="numerics.world_size",
            todo="start it through tombola.training.launch, or through torchrun with as many processes",
        )
    if numerics.device == "cuda" and local_rank >= torch.cuda.device_count():
        raise RecipeError(
            f"process {local_rank} needs a CUDA device of its own, there are {torch.cuda.device_count()}",
            where="numerics.world_size",
            todo="train on fewer processes",
        )
    from accelerate import Accelerator, DistributedDataParallelKwargs, InitProcessGroupKwargs
    from accelerate.state import AcceleratorState

    backend = "nccl" if numerics.device == "cuda" else "gloo"
    accelerator = Accelerator(
        cpu=numerics.device == "cpu",
        mixed_precision="no",  # precision is the training loop's
        kwargs_handlers=[
            DistributedDataParallelKwargs(broadcast_buffers=False),
            InitProcessGroupKwargs(backend=backend, timeout=PATIENCE),
        ],
    )
    try:
        yield Team(Ranks(accelerator.process_index, accelerator.num_processes), _wrapper(accelerator))
    finally:
        accelerator.end_training()
        AcceleratorState._reset_state(reset_partial_state=True)


def _wrapper(accelerator: Any) -> Callable[[nn.Module], nn.Module]:
    def wrap(model: nn.Module) -> nn.Module:
        return accelerator.prepare_model(model)

    return wrap
