"""A mask's bytes on disk against the entropy of its rows, Σ H(density of row) · columns / 8."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import Row, Section, table
from benchmarks.setting import Setting, fresh_model, magnitude_mask
from tombola.masks.packing import load_mask, save_mask
from tombola.masks.weight_mask import WeightMask

SPARSITIES = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


def entropy_bytes(mask: WeightMask) -> float:
    """What an ideal code needs that knows each row's density and nothing else."""
    total = 0.0
    for name in mask.names:
        rows = mask[name].numpy()
        rows = rows.reshape(rows.shape[0], -1)
        density = rows.mean(axis=1)
        inside = density[(density > 0) & (density < 1)]
        bits = -(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside))
        total += float(bits.sum()) * rows.shape[1] / 8
    return total


def section(setting: Setting, sparsities: Sequence[float] = SPARSITIES) -> Section:
    model = fresh_model(setting)
    lines, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for sparsity in sparsities:
            mask = magnitude_mask(model, sparsity)
            path = Path(folder) / "mask.safetensors"
            save_mask(path, mask)
            if load_mask(path) != mask:
                raise RuntimeError(f"the mask of sparsity {sparsity} came back as another")
            size, bound = path.stat().st_size, entropy_bytes(mask)
            ratios.append(size / bound)
            lines.append(
                (
                    f"{sparsity:.0%}",
                    f"{size:,}",
                    f"{bound:,.0f}",
                    f"{size / bound:.3f}",
                    f"{mask.size / size:.1f}",
                )
            )
    head = ("sparsity", "bytes", "entropy bound", "ratio", "weights a byte")
    text = f"{min(ratios):.3f} to {max(ratios):.3f}"
    row = Row("mask on disk against the entropy of its rows", text, max(ratios), 1.08, at_most=True)
    return Section("Mask on disk", table(head, lines), [row])
