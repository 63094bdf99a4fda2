"""Which weights go: exact counts over one global ranking, ties broken by position (SPEC 2.2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from tombola.errors import MaskMismatch, RecipeError
from tombola.masks.weight_mask import WeightMask


def lowest_pruned(
    scores: Mapping[str, torch.Tensor], zeros: int, within: WeightMask | None = None
) -> WeightMask:
    """The mask with exactly ``zeros`` zeros in total: the lowest scores of one ranking over all tensors.

    Entries that ``within`` has dropped stay dropped, so the result is nested in it. Among equal scores the
    earlier position goes first (names in sorted order, then the flat index). Infinite scores are allowed, NaN
    is not.
    """
    names = sorted(scores)
    if not names:
        raise MaskMismatch("there are no scores to select from", where="scores")
    _check_scores(scores)
    size = sum(scores[name].numel() for name in names)
    if within is not None:
        within.check_against({name: tuple(scores[name].shape) for name in names})
        if missing := [name for name in names if name not in within]:
            raise MaskMismatch("scores were given for a tensor that the earlier mask lacks", where=missing[0])
    already = within.zeros if within is not None else 0
    if not already <= zeros <= size:
        raise RecipeError(
            f"{zeros} zeros cannot be had: {already} are zero already, of {size}",
            where="sparsity",
            todo="masks of one run are nested: a later round prunes at least as much as the one before",
        )
    kept = {
        name: np.ones(scores[name].shape, bool) if within is None else within[name].numpy() for name in names
    }
    if zeros > already:
        _drop_lowest(scores, kept, zeros - already)
    return WeightMask({name: torch.from_numpy(kept[name]) for name in names})


def _check_scores(scores: Mapping[str, torch.Tensor]) -> None:
    for name in sorted(scores):
        if not scores[name].is_floating_point():
            raise MaskMismatch(f"the scores are {scores[name].dtype}, not floating point", where=name)
        if bool(torch.isnan(scores[name]).any()):
            raise MaskMismatch(
                "some scores are not a number (NaN): they have no place in a ranking",
                where=name,
                todo="look for a training that diverged",
            )


def _drop_lowest(scores: Mapping[str, torch.Tensor], kept: dict[str, np.ndarray], count: int) -> None:
    """Clear the ``count`` lowest kept entries, in place: a linear-time selection, then one pass."""
    wide = any(tensor.dtype == torch.float64 for tensor in scores.values())

    def kept_scores(name: str) -> np.ndarray:
        plain = scores[name].detach().to("cpu", torch.float64 if wide else torch.float32).numpy()
        return plain[kept[name]]

    ranking = np.concatenate([kept_scores(name) for name in sorted(kept)])
    ranking.partition(count - 1)
    threshold = ranking[count - 1]
    ties_to_drop = count - int(np.count_nonzero(ranking[:count] < threshold))
    del ranking
    for name in sorted(kept):
        own = kept_scores(name)
        drop = own < threshold
        if ties_to_drop:
            tied = np.flatnonzero(own == threshold)[:ties_to_drop]
            drop[tied] = True
            ties_to_drop -= len(tied)
        kept[name][kept[name]] = ~drop
