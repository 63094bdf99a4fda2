"""The step that estimates bias and variance of a row of trainings over its seeds (SPEC 3.6, Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tombola import files
from tombola.errors import DataError
from tombola.plan.materials import encoded_split, task_data
from tombola.plan.workplace import Workplace


def decompose(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """Read the predictions of every seed and write error, bias² and variance."""
    from tombola.tasks.decomposition import decompose as decomposed

    task_data(sources["task"], parameters["task"]["fingerprint"])
    targets = encoded_split(sources, "dev", sources["max_length"]).targets
    if targets is None:
        raise DataError("the development set has no labels", where=str(sources["task"]["name"]))
    outputs = [files.read_tensors(path)["dev"].numpy() for _, path in sorted(inputs.items())]
    found = decomposed(outputs, targets, parameters["task"]["kind"])
    work.write_json("decomposition.json", asdict(found))
