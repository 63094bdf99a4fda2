"""Ranks: which share of every batch this process trains on, when several processes train one model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """Process ``rank`` of ``size``; with several, the model's wrapper averages gradients in ``backward``."""

    rank: int = 0
    size: int = 1

    @property
    def stream(self) -> tuple[int, ...]:
        """What tells this process's dropout from the others'; nothing when it is the first or alone."""
        return (self.rank,) if self.rank else ()

    def micro_batches(self, indices: np.ndarray, micro_batch: int | None) -> list[tuple[np.ndarray, float]]:
        """This process's examples of a batch, in parts of at most ``micro_batch``, each with its weight.

        Every process gets the same number of parts, because they wait for each other. One that would be empty
        stands in with an example of weight 0.
        """
        share = math.ceil(len(indices) / self.size)
        parts = np.array_split(indices[self.rank :: self.size], math.ceil(share / (micro_batch or share)))
        return [(part, 1.0) if len(part) else (indices[:1], 0.0) for part in parts]

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            tensor = tensor.clone()
            torch.distributed.all_reduce(tensor)
        return tensor


ALONE = Ranks()
