"""Masks: which prunable weights a ticket keeps, how they are chosen, and how they are written down."""

from tombola.masks.schedule import SCHEDULES, round_sparsities
from tombola.masks.selection import lowest_pruned, zeros_wanted
from tombola.masks.weight_mask import WeightMask

__all__ = [
    "SCHEDULES",
    "WeightMask",
    "lowest_pruned",
    "round_sparsities",
    "zeros_wanted",
]
