"""Dynamic int8 quantisation of an ONNX file, and what it costs on a task's development set.

Weights become int8 once; activations are quantised as they come, each by the range of its whole batch. Scores can
therefore depend a little on which examples share a batch: the batch size is part of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tombola.deploy.onnx_session import OnnxModel, quiet, require_onnx
from tombola.errors import UsageError, nearest
from tombola.tasks.batching import collate, evaluation_batches
from tombola.tasks.encoding import Encoded, encode
from tombola.tasks.metrics import score
from tombola.tasks.task import TaskData

KINDS = ("int8",)


@dataclass(frozen=True)
class Scoring:
    """The development set that a model is scored on before and after, as its tokenizer cuts it."""

    task: str
    metrics: tuple[str, ...]
    data: Encoded
    batch_size: int = 32

    @classmethod
    def of(cls, data: TaskData, tokenizer: Any, max_length: int, batch_size: int = 32) -> Scoring:
        """The dev split of a task."""
        return cls(data.task.name, data.task.metrics, encode(data.dev, tokenizer, max_length), batch_size)

    def __call__(self, model: OnnxModel) -> dict[str, float]:
        """Every metric of the task, times 100."""
        if self.data.targets is None:
            raise UsageError("the development set has no labels to score", where=f"task {self.task}")
        return score(self.metrics, self._answers(model), self.data.targets)

    def _answers(self, model: OnnxModel) -> np.ndarray:
        answers: list[np.ndarray | None] = [None] * len(self.data)
        for rows in evaluation_batches(self.data.lengths, self.batch_size):
            logits = model(collate(self.data, rows, multiple=1))[model.outputs.index("logits")]
            for row, answer in zip(rows, logits, strict=True):
                answers[int(row)] = answer
        return np.stack(answers)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Quantised:
    """Before and after: bytes on disk and scores on the development set."""

    kind: str
    bytes_before: int
    bytes_after: int
    task: str
    examples: int
    batch_size: int
    before: Mapping[str, float]
    after: Mapping[str, float]


def check_kind(kind: str) -> None:
    """Refuse a quantisation that there is not."""
    if kind not in KINDS:
        raise UsageError(
            f"there is no quantisation '{kind}'", where="--quantize", todo=nearest(kind, list(KINDS))
        )


def quantise(path: Path, out: Path, scoring: Scoring, *, kind: str = "int8", threads: int = 1) -> Quantised:
    """Write an int8 version of the ONNX file ``path`` to ``out``; score both."""
    check_kind(kind)
    require_onnx()
    before = scoring(OnnxModel(path, threads=threads))
    _to_int8(path, out)
    after = scoring(OnnxModel(out, threads=threads))
    return Quantised(
        kind=kind,
        bytes_before=_bytes(path),
        bytes_after=_bytes(out),
        task=scoring.task,
        examples=len(scoring.data),
        batch_size=scoring.batch_size,
        before=before,
        after=after,
    )


def _to_int8(path: Path, out: Path) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(path)
    # The shapes that torch noted contradict those of matrices that the quantiser turns round.
    del model.graph.value_info[:]
    with quiet():
        quantize_dynamic(
            model,
            out,
            weight_type=QuantType.QInt8,
            use_external_data_format=_bytes(path) > path.stat().st_size,
        )


def _bytes(path: Path) -> int:
    """The file and the weights beside it."""
    return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
