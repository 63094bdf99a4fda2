"""Putting numerics into effect: threads, determinism, precision and transfers, on the device they name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor

from tombola.errors import TrainingError
from tombola.training.recipe import Numerics


def apply(numerics: Numerics) -> None:
    """Set torch's global switches so that equal numerics give equal bits.

    On CUDA: deterministic kernels, strictly (with ``warn_only`` torch keeps the memory-efficient
    attention's non-deterministic backward, which is the one that padded batches use), no autotuning, and no
    TF32 behind the user's back. cuBLAS needs its workspace setting before the first CUDA call of the process.
    """
    torch.set_num_threads(numerics.threads)
    if numerics.device != "cuda":
        return
    if not torch.cuda.is_available():
        raise TrainingError(
            "there is no CUDA device (or this torch cannot use it)",
            where="device cuda",
            todo="choose device cpu",
        )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.conv.fp32_precision = "ieee"  # type: ignore[attr-defined]


@contextmanager
def applied(numerics: Numerics) -> Iterator[torch.device]:
    """``apply`` for the length of a block; the caller's switches and random state come back afterwards."""
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    benchmark, matmul = torch.backends.cudnn.benchmark, torch.get_float32_matmul_precision()
    convolution = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    try:
        apply(numerics)
        with torch.random.fork_rng(
            devices=[torch.cuda.current_device()] if numerics.device == "cuda" else []
        ):
            yield torch.device(numerics.device)
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.backends.cudnn.benchmark = benchmark
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.conv.fp32_precision = convolution  # type: ignore[attr-defined]


def autocast(numerics: Numerics) -> AbstractContextManager[object]:
    """bf16 where the precision says so, around forward passes only: master weights stay fp32."""
    return torch.autocast(numerics.device, dtype=torch.bfloat16, enabled=numerics.precision == "bf16")


def width_multiple(device: torch.device) -> int:
    """What the width of a batch is rounded up to: tensor cores want rows of 8, a CPU's step is linear in the width
    (rounding cost a third of the speed on CoLA, benchmarks/RESULTS.md)."""
    return 8 if device.type == "cuda" else 1


def on_device(batch: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """The batch where the model is; pinned and not waited for when that is a GPU."""
    if device.type == "cpu":
        return dict(batch)
    return {name: tensor.pin_memory().to(device, non_blocking=True) for name, tensor in batch.items()}
