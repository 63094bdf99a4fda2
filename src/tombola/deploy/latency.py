"""Measured latency and throughput: several models on the same made-up batches, in turns (DESIGN 7).

Nothing here is derived from counts of operations. The first model is the reference: a ratio is another's
time ÷ its time.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from tombola.deploy.inputs import Inputs, inputs_of
from tombola.deploy.interleaving import Ratio, Timing, interleaved, ratio_of_medians
from tombola.deploy.surroundings import LIBRARIES, Surroundings, surroundings
from tombola.errors import UsageError, nearest

#: A module, or anything that is called with a batch (an onnxruntime session, say).
Measurable = nn.Module | Callable[[Mapping[str, Tensor]], object]

BATCHES, LENGTHS = (1, 8, 32), (32, 128)
REPEATS, WARM_UP = 20, 3
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Cell:
    """All models on batches of one shape."""

    batch: int
    length: int
    timings: Mapping[str, Timing]

    def ratio(self, name: str, reference: str) -> Ratio:
        """The time of ``name`` ÷ the time of ``reference``."""
        return ratio_of_medians(self.timings[name], self.timings[reference])

    def throughput(self, name: str) -> float:
        """Examples a second at the median time."""
        return self.batch / self.timings[name].median


@dataclass(frozen=True)
class LatencyTable:
    """One cell a shape; ``names`` in the order given, the first is the reference."""

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    repeats: int
    warm_up: int
    surroundings: Surroundings

    @property
    def reference(self) -> str:
        return self.names[0]

    def cell(self, batch: int, length: int) -> Cell:
        """The cell of one shape."""
        for cell in self.cells:
            if (cell.batch, cell.length) == (batch, length):
                return cell
        measured = ", ".join(f"{cell.batch} × {cell.length}" for cell in self.cells)
        raise UsageError(
            f"no batch of {batch} × {length} was measured", where="latency", todo=f"there are {measured}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; what follows from the seconds is there for readers, and not read back."""
        return {
            "names": list(self.names),
            "reference": self.reference,
            "repeats": self.repeats,
            "warm_up": self.warm_up,
            "surroundings": self.surroundings.to_json(),
            "cells": [self._cell_json(cell) for cell in self.cells],
        }

    def _cell_json(self, cell: Cell) -> dict[str, Any]:
        models = {}
        for name, timing in cell.timings.items():
            ratio = cell.ratio(name, self.reference)
            models[name] = {
                "seconds": list(timing.seconds),
                "median": timing.median,
                "quartiles": list(timing.quartiles),
                "examples_per_second": cell.throughput(name),
                "ratio": None if name == self.reference else [ratio.value, ratio.low, ratio.high],
            }
        return {"batch": cell.batch, "length": cell.length, "models": models}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        cells = tuple(
            Cell(
                cell["batch"],
                cell["length"],
                {name: Timing(tuple(cell["models"][name]["seconds"])) for name in value["names"]},
            )
            for cell in value["cells"]
        )
        about = Surroundings.from_json(value["surroundings"])
        return cls(tuple(value["names"]), cells, value["repeats"], value["warm_up"], about)


def latency(
    models: Mapping[str, Measurable],
    *,
    batches: Sequence[int] = BATCHES,
    lengths: Sequence[int] = LENGTHS,
    repeats: int = REPEATS,
    warm_up: int = WARM_UP,
    threads: int = 1,
    device: str = "cpu",
    precision: str = "fp32",
    inputs: Inputs | None = None,
    libraries: tuple[str, ...] = LIBRARIES,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    told: Callable[[Cell], object] = lambda cell: None,
) -> LatencyTable:
    """Time ``models`` on the same made-up batches without padding, every batch size × every length.

    Modules are measured in evaluation mode with their weights in ``precision`` (copies where that takes one), and
    are afterwards as they were. ``inputs`` says what callables read; modules say it themselves. ``libraries``:
    whose versions the table names. ``told`` hears of every cell as it is done.
    """
    _check(models, batches, lengths, repeats, threads, device, precision)
    reads = inputs or _inputs_of(models)
    lengths = (0,) if reads.picture is not None else lengths
    shapes = [(batch, length) for length in dict.fromkeys(lengths) for batch in dict.fromkeys(batches)]
    for shape in shapes:
        reads.check(*shape)
    cells = []
    with _ready(models, threads, device, PRECISIONS[precision]) as works:
        for batch, length in shapes:
            given = _placed(reads.batch(batch, length, seed=seed), device, PRECISIONS[precision])
            timings = interleaved(
                {name: _call(work, given) for name, work in works.items()},
                repeats=repeats,
                warm_up=warm_up,
                clock=clock,
                wait=torch.cuda.synchronize if device == "cuda" else lambda: None,
            )
            cells.append(Cell(batch, length, timings))
            told(cells[-1])
    about = surroundings(device, threads, precision, libraries)
    return LatencyTable(tuple(models), tuple(cells), repeats, warm_up, about)


def _call(work: Measurable, given: Mapping[str, Tensor]) -> Callable[[], object]:
    return (lambda: work(**given)) if isinstance(work, nn.Module) else (lambda: work(given))


def _placed(batch: Mapping[str, Tensor], device: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """The batch where the models are: the time of a copy to the device is not the model's."""
    return {
        name: tensor.to(device, dtype=dtype if tensor.is_floating_point() else None)
        for name, tensor in batch.items()
    }


@contextmanager
def _ready(
    models: Mapping[str, Measurable], threads: int, device: str, dtype: torch.dtype
) -> Iterator[dict[str, Measurable]]:
    """The models as they are measured; threads and modes come back afterwards."""
    before = torch.get_num_threads()
    own = [model for model in models.values() if isinstance(model, nn.Module)]
    modes = [(module, module.training) for model in own for module in model.modules()]
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            yield {
                name: _in_place(model, device, dtype) if isinstance(model, nn.Module) else model
                for name, model in models.items()
            }
    finally:
        torch.set_num_threads(before)
        for module, mode in modes:
            module.training = mode


def _in_place(model: nn.Module, device: str, dtype: torch.dtype) -> nn.Module:
    weights = [weight for weight in model.parameters() if weight.is_floating_point()]
    if any(weight.device.type != device or weight.dtype != dtype for weight in weights):
        model = copy.deepcopy(model).to(device=device, dtype=dtype)
    return model.eval()


def _inputs_of(models: Mapping[str, Measurable]) -> Inputs:
    for model in models.values():
        if isinstance(model, nn.Module):
            return inputs_of(model)
    raise UsageError(
        "no model says what it reads", where="inputs", todo="give inputs=Inputs(names=…, vocabulary=…)"
    )


def _check(
    models: Mapping[str, Measurable],
    batches: Sequence[int],
    lengths: Sequence[int],
    repeats: int,
    threads: int,
    device: str,
    precision: str,
) -> None:
    if not models:
        raise UsageError("there is no model to measure", where="models")
    for option, values in (("batch", batches), ("length", lengths)):
        if not values:
            raise UsageError(f"no {option} is given", where=option, todo="give one or more")
    if repeats < 2:
        raise UsageError(f"{repeats} is too few", where="repeats", todo="give 2 or more; 15 say something")
    if threads < 1:
        raise UsageError(f"{threads} threads are none", where="threads", todo="give 1 or more")
    if precision not in PRECISIONS:
        raise UsageError(
            f"there is no precision '{precision}'",
            where="precision",
            todo=nearest(precision, list(PRECISIONS)),
        )
    if device not in ("cpu", "cuda"):
        raise UsageError(f"there is no device '{device}'", where="device", todo="give cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("there is no CUDA device here", where="device", todo="give cpu")
