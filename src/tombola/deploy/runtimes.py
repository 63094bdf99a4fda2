"""Latency in each runtime that a model may end up in: torch as it stands, and onnxruntime on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from tombola.deploy.inputs import inputs_of
from tombola.deploy.latency import LatencyTable, latency
from tombola.errors import UsageError, nearest

RUNTIMES = ("torch", "onnxruntime")


def latency_in(
    runtime: str, models: Mapping[str, nn.Module], *, threads: int = 1, device: str = "cpu", **settings: Any
) -> LatencyTable:
    """``latency`` in one runtime; the settings are the same. Two runtimes are never measured in turns with each
    other: the threads of one that has just worked are in the other's way."""
    check_runtime(runtime, device, settings.get("precision", "fp32"))
    if runtime == "torch":
        return latency(models, threads=threads, device=device, **settings)
    from tombola.deploy.onnx_export import to_onnx
    from tombola.deploy.onnx_session import OnnxModel

    reads = inputs_of(next(iter(models.values())))
    with tempfile.TemporaryDirectory(prefix="tombola-onnx-") as scratch:
        sessions = {}
        for number, (name, model) in enumerate(models.items()):
            path = Path(scratch) / f"{number}.onnx"
            to_onnx(model, path, reads)
            sessions[name] = OnnxModel(path, threads=threads)
        return latency(
            sessions,
            inputs=reads,
            threads=threads,
            device=device,
            libraries=("onnxruntime", "torch"),
            **settings,
        )


def check_runtime(runtime: str, device: str, precision: str) -> None:
    """Refuse what a runtime cannot do here, before anything is built."""
    if runtime not in RUNTIMES:
        raise UsageError(
            f"there is no runtime '{runtime}'", where="--runtime", todo=nearest(runtime, list(RUNTIMES))
        )
    if runtime == "onnxruntime":
        from tombola.deploy.onnx_session import require_onnx

        require_onnx()
        if (device, precision) != ("cpu", "fp32"):
            raise UsageError(
                "onnxruntime is measured on the CPU in fp32",
                where="--runtime",
                todo="give --device cpu --precision fp32, or leave --runtime onnxruntime out",
            )
