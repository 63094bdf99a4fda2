"""Masks: which prunable weights a ticket keeps, how they are chosen, and how they are written down."""

from tombola.masks.packing import load_mask, save_mask
from tombola.masks.schedule import SCHEDULES, round_sparsities
from tombola.masks.selection import lowest_pruned, zeros_wanted
from tombola.masks.weight_mask import WeightMask

__all__ = [
    "SCHEDULES",
    "WeightMask",
    "load_mask",
    "lowest_pruned",
    "round_sparsities",
    "save_mask",
    "zeros_wanted",
]
