"""A model as an ONNX file whose batch and length are free, checked against the model it was made from.

What is written is what torch computes: several batch sizes, lengths and paddings are answered by both, and a file that
answers otherwise is refused. Nothing of the machine it was made on (torch notes stack traces) stays in it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tombola.deploy.inputs import Inputs
from tombola.deploy.onnx_session import OnnxModel, quiet, require_onnx
from tombola.errors import UnsupportedModel, UsageError

OPSET = 20
#: Below, torch's exporter has no operators of its own; above, nothing here was tried.
OPSETS = range(18, 24)
#: Between onnxruntime's and torch's float32 answers; of answers beyond 1, relative to the largest.
TOLERANCE = 1e-4
#: Protobuf files end at 2 GB: larger weights get a file beside it.
LARGEST_FILE = 1_800_000_000
#: (examples, length, padded): one of each kind that a shape could go wrong with.
CASES = ((1, 1, False), (1, 7, False), (2, 16, False), (3, 9, True), (8, 32, True), (5, 128, True))


@dataclass(frozen=True)
class Case:
    """One batch that both answered."""

    batch: int
    length: int
    padded: bool
    difference: float  # the largest absolute one over all outputs
    largest: float  # the largest absolute answer


@dataclass(frozen=True)
class Written:
    """An ONNX file, and how its answers compare with torch's."""

    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axes: Mapping[str, Mapping[int, str]]
    cases: tuple[Case, ...]

    @property
    def difference(self) -> float:
        """The largest difference of all cases."""
        return max(case.difference for case in self.cases)


class _Answers(nn.Module):
    """The model with inputs by position and its tensor outputs as a tuple: what an ONNX graph can say."""

    def __init__(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        answer = self.model(**dict(zip(self.inputs, given, strict=True)))
        return tuple(answer[name] for name in self.outputs)


def to_onnx(model: nn.Module, path: Path, inputs: Inputs, *, opset: int = OPSET) -> Written:
    """Write ``model`` (float32, evaluation mode; a copy, the model stays as it is) to ``path``, and compare."""
    require_onnx()
    if opset not in OPSETS:
        raise UsageError(
            f"opset {opset} cannot be written",
            where="--opset",
            todo=f"give {OPSETS.start} to {OPSETS.stop - 1}; {OPSET} is the default",
        )
    plain = copy.deepcopy(model).to("cpu", torch.float32).eval()
    given = inputs.batch(2, _within(inputs, 8))
    with torch.inference_mode():
        answer: Any = plain(**given)
    outputs = tuple(name for name, value in answer.items() if isinstance(value, Tensor))
    answers = _Answers(plain, inputs.names, outputs).eval()
    _write(answers, tuple(given.values()), path, inputs, opset)
    cases = compare(answers, OnnxModel(path), inputs)
    for case in cases:
        allowed = TOLERANCE * max(1.0, case.largest)
        if not case.difference <= allowed:
            raise UnsupportedModel(
                f"onnxruntime's answers differ from torch's by {case.difference:.1e} (allowed {allowed:.1e})",
                where=f"batch {case.batch} × length {case.length}",
                todo="nothing was written; please report the model's family and class",
            )
    return Written(opset, inputs.names, outputs, _axes(inputs), cases)


def compare(answers: nn.Module, session: OnnxModel, inputs: Inputs) -> tuple[Case, ...]:
    """Both answers on the same made-up batches."""
    found = []
    for seed, (batch, length, padded) in enumerate(CASES):
        length = 0 if inputs.picture is not None else _within(inputs, length)
        given = inputs.batch(batch, length, seed=seed, padded=padded)
        with torch.inference_mode():
            true = answers(*given.values())
        apart = [
            (one - torch.from_numpy(other)).abs().max()
            for one, other in zip(true, session(given), strict=True)
        ]
        largest = [one.abs().max() for one in true]
        # torch's maximum, unlike Python's, lets an answer that is not a number through.
        found.append(
            Case(batch, length, padded, float(torch.stack(apart).max()), float(torch.stack(largest).max()))
        )
    return tuple(found)


def _write(answers: _Answers, given: tuple[Tensor, ...], path: Path, inputs: Inputs, opset: int) -> None:
    size = sum(weight.numel() * weight.element_size() for weight in answers.parameters())
    named = {name: torch.export.Dim(name) for axes in _axes(inputs).values() for name in axes.values()}
    shapes = tuple({axis: named[name] for axis, name in axes.items()} for axes in _axes(inputs).values())
    with quiet():
        try:
            program = torch.onnx.export(
                answers,
                given,
                dynamo=True,
                opset_version=opset,
                input_names=list(inputs.names),
                output_names=list(answers.outputs),
                dynamic_shapes=(shapes,),
                verbose=False,
            )
        except (RuntimeError, ValueError, TypeError) as error:
            raise UnsupportedModel(
                f"torch cannot export this model ({_first_line(error)})",
                where=type(answers.model).__name__,
                todo="please report the model's family and class",
            ) from error
        if program is None:
            raise UnsupportedModel("torch gave no ONNX program", where=type(answers.model).__name__)
        _forget_origins(program.model)
        program.save(str(path), external_data=size > LARGEST_FILE)
    written = program.model.opset_imports.get("")
    if written != opset:
        raise UnsupportedModel(
            f"torch wrote opset {written} instead of {opset}",
            where="--opset",
            todo=f"leave it out: {OPSET} is the default",
        )


def _axes(inputs: Inputs) -> dict[str, dict[int, str]]:
    free = {0: "batch"} if inputs.picture is not None else {0: "batch", 1: "length"}
    return {name: dict(free) for name in inputs.names}


def _forget_origins(model: Any) -> None:
    """Drop the notes on where each node came from: they are larger than small models, and name folders."""
    model.metadata_props.clear()
    graph = model.graph
    for value in (*graph.inputs, *graph.outputs, *graph.initializers.values()):
        value.metadata_props.clear()
    for node in graph.all_nodes():
        node.metadata_props.clear()
        node.doc_string = None
        for value in node.outputs:
            value.metadata_props.clear()


def _within(inputs: Inputs, length: int) -> int:
    return length if inputs.longest is None else min(length, inputs.longest)


def _first_line(error: BaseException) -> str:
    told = error.__cause__ or error
    return next((line for line in str(told).splitlines() if line.strip()), type(told).__name__)[:200]
