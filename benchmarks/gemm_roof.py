"""How much of the machine's matrix-product rate our training steps reach, and where the rest goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from benchmarks.fine_tuning import Times
from benchmarks.report import Row, Section, table
from benchmarks.setting import Setting, fresh_model, magnitude_mask
from benchmarks.timing import many, spread
from tombola.models.anatomy import anatomy_of
from tombola.training.numerics import autocast
from tombola.training.optimizers import build_optimizer
from tombola.training.sparsity import FixedMask

#: Tokens of a narrow, a middling and a wide batch of 32.
TOKENS = (512, 2048, 4096)


def roof(setting: Setting, times: int = 12) -> dict[tuple[int, int, int], float]:
    """FLOPs a second of the model's own products (tokens, inputs, outputs), as ``F.linear`` does them."""
    shapes = sorted({matrix.shape for matrix in anatomy_of(fresh_model(setting)).matrices})
    kind = torch.bfloat16 if setting.precision == "bf16" else torch.float32
    rates: dict[tuple[int, int, int], float] = {}
    for tokens in TOKENS:
        for outputs, inputs in shapes:
            left = torch.randn(tokens, inputs, device=setting.device, dtype=kind)
            right = torch.randn(outputs, inputs, device=setting.device, dtype=kind)
            seconds = float(np.median(many(lambda a=left, b=right: F.linear(a, b), times, setting.device)))
            rates[tokens, inputs, outputs] = 2 * tokens * inputs * outputs / seconds
    return rates


def step_flops(model: Any, batch_size: int, columns: int) -> float:
    """Of the matrix products of one training step: backward is twice forward. Padding counts as work."""
    anatomy = anatomy_of(model)
    tokens = batch_size * columns
    dense = sum(
        2 * m.shape[0] * m.shape[1] * (batch_size if m.layer is None else tokens) for m in anatomy.matrices
    )
    # Scores and weighted values of every head: two products of columns × columns × head size.
    attention = sum(4 * tokens * columns * layer.heads * layer.head_size for layer in anatomy.layers)
    return 3.0 * (dense + attention)


def section(
    roofs: Mapping[str, Mapping[tuple[int, int, int], float]],
    measured: Sequence[tuple[Times, Mapping[str, list[int]]]],
    profiles: str,
) -> Section:
    """``measured`` pairs the runs of fine_tuning.py with the columns of our batches."""
    model = fresh_model(measured[0][0].setting)
    rows, lines = [], []
    for times, widths in measured:
        setting = times.setting
        highest = max(roofs[setting.precision].values())
        for task in setting.tasks:
            work = [step_flops(model, setting.batch_size, columns) for columns in widths[task]]
            shares = [
                flops / seconds / highest
                for flops, seconds in zip(work, times.all("ours", task), strict=True)
            ]
            rate = sum(work) / sum(times.all("ours", task))
            what = f"share of the roof, {task}, {setting.precision}"
            rows.append(Row(what, f"{rate / highest:.0%}", rate / highest))
            columns = f"{np.mean(widths[task]):.1f}"
            lines.append(
                (
                    setting.precision,
                    task,
                    columns,
                    f"{rate / 1e9:.0f}",
                    f"{rate / highest:.0%}",
                    spread(shares),
                )
            )
    shapes = [
        (
            f"{tokens} × {inputs} → {outputs}",
            *(f"{roofs[p][tokens, inputs, outputs] / 1e9:.0f}" for p in roofs),
        )
        for tokens, inputs, outputs in next(iter(roofs.values()))
    ]
    body = "\n\n".join(
        [
            "The roof is the best of these rates (GFLOP/s of `F.linear`, sizes of the model, this process):",
            table(("tokens × inputs → outputs", *roofs), shapes),
            "Work of a step: three times the forward pass's matrix products, attention and padding included.",
            table(
                ("precision", "task", "mean columns", "GFLOP/s", "of the roof", "share of single steps"),
                lines,
            ),
            profiles,
        ]
    )
    return Section("Share of the GEMM roof", body, rows)


def profiles(setting: Setting, columns: Sequence[int] = (16, 72), steps: int = 3, top: int = 9) -> str:
    """Where the time of our step goes, by torch.profiler's own time of each operator."""
    parts = []
    for width in columns:
        shares = _shares(setting, width, steps)[:top]
        title = f"Profile of our step, {setting.precision}, {setting.batch_size} × {width} tokens (own time):"
        parts += [title, table(("operator", "share", "ms a step"), shares)]
    return "\n\n".join(parts)


def _shares(setting: Setting, columns: int, steps: int) -> list[tuple[str, str, str]]:
    model: Any = fresh_model(setting).to(setting.device)
    parameters = list(model.parameters())
    sparsity = FixedMask(magnitude_mask(model, setting.sparsity))
    sparsity.attach(model)
    optimizer = build_optimizer(model.named_parameters(), setting.recipe, numerics=setting.numerics)
    sparsity.bind(optimizer)
    shape = (setting.batch_size, columns)
    ids = torch.randint(5, model.config.vocab_size, shape, device=setting.device)
    labels = torch.zeros(setting.batch_size, dtype=torch.long, device=setting.device)

    def step() -> None:
        with autocast(setting.numerics):
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        F.cross_entropy(logits.float(), labels).backward()
        sparsity.before_clip()
        torch.nn.utils.clip_grad_norm_(parameters, setting.recipe.clip)
        optimizer.step()
        sparsity.after_step(0)
        optimizer.zero_grad(set_to_none=True)

    step()
    cuda = setting.device == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiled:
        for _ in range(steps):
            step()
    own = {
        event.key: event.self_device_time_total if cuda else event.self_cpu_time_total
        for event in profiled.key_averages()
    }
    total = sum(own.values())
    ranked = sorted(own.items(), key=lambda item: -item[1])
    return [(f"`{name[:60]}`", f"{us / total:.1%}", f"{us / steps / 1e3:.1f}") for name, us in ranked]
