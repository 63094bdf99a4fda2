"""What a fixed mask costs: its own work, timed alone, and the whole step with and without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.fine_tuning import Times
from benchmarks.report import Row, Section, table
from benchmarks.setting import Setting, fresh_model, magnitude_mask
from benchmarks.timing import many, spread
from tombola.training.optimizers import build_optimizer
from tombola.training.sparsity import FixedMask


def alone(setting: Setting, times: int = 40) -> list[float]:
    """Seconds of ``before_clip`` and ``after_step`` together, on gradients as a step leaves them."""
    model: Any = fresh_model(setting).to(setting.device)
    sparsity = FixedMask(magnitude_mask(model, setting.sparsity))
    sparsity.attach(model)
    sparsity.bind(build_optimizer(model.named_parameters(), setting.recipe, numerics=setting.numerics))
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)

    def work() -> None:
        sparsity.before_clip()
        sparsity.after_step(0)

    return many(work, times, setting.device)


def section(own: Sequence[float], measured: Sequence[Times]) -> Section:
    """``measured`` are the runs of fine_tuning.py, which have our loop with and without a mask."""
    rows, lines = [], []
    work = float(np.median(own))
    for times in measured:
        precision = times.setting.precision
        for task in times.setting.tasks:
            dense = float(np.median(times.all("ours, dense", task)))
            share = 100 * work / dense
            whole = times.pairs("ours", "ours, dense", task)
            what = f"work of a fixed mask, {task}, {precision}: % of the median dense step"
            rows.append(Row(what, f"{share:.2f} %", share, 2.0, at_most=True))
            lines.append((precision, task, f"{dense * 1e3:.0f}", f"{share:.2f} %", spread(whole, "{:.3f}")))
    body = "\n\n".join(
        [
            f"`before_clip` and `after_step` together take {spread([1e3 * s for s in own])} ms "
            "(a foreach product over the gradients; after torch's AdamW nothing has to be zeroed again).",
            table(("precision", "task", "dense step, ms", "mask alone", "whole step, masked / dense"), lines),
            "The whole-step ratios are of pairs: the same batch at the same turn, two processes.",
        ]
    )
    return Section("Work of a fixed mask", body, rows)
