"""|w|, the score of magnitude pruning (BERT tickets, section 2: one global ranking)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from tombola.errors import MaskMismatch, nearest


def magnitude(state: Mapping[str, torch.Tensor], names: Iterable[str]) -> dict[str, torch.Tensor]:
    """The absolute value of every weight in ``names``, in memory of its own."""
    scores: dict[str, torch.Tensor] = {}
    for name in names:
        if name not in state:
            raise MaskMismatch(
                f"there are no weights called '{name}' to score", where=name, todo=nearest(name, tuple(state))
            )
        scores[name] = state[name].detach().abs()
    return scores
