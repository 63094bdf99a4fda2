"""TrainingState: everything a training needs to go on from a step, in memory or in a folder.

In a folder it is safetensors and JSON with a manifest of SHA-256 sums; the folder appears by one rename, so
it is whole or absent. Random state is not part of it: every step draws from a stream of its own.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tombola.errors import CorruptArtifact, RecipeError
from tombola.files import fsync_folder, read_json, read_tensors, sha256_of, write_json, write_tensors
from tombola.models.anatomy import unwrapped
from tombola.training.optimizers import optimizer_state

FORMAT = 1
MANIFEST = "manifest.json"
PARTS = ("model", "optimizer", "sparsity", "history")
#: Written only where there is one, so that checkpoints without it stay what they were.
EARLY_STOPPING = "stopping"


@dataclass(frozen=True)
class TrainingState:
    """A training after ``step`` of ``total`` steps: θi at i = ``step``, with its head and optimizer.

    Tensors are copies on the CPU: what goes on training cannot change them (SPEC 5, trap 1). An empty
    ``optimizer`` is a new one; an empty ``model`` leaves the model as it is.
    """

    step: int
    total: int
    model: Mapping[str, Tensor] = field(default_factory=dict)
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    sparsity: Mapping[str, Tensor] = field(default_factory=dict)
    #: per-step losses and gradient norms so far; snapshots have none
    history: Mapping[str, Tensor] = field(default_factory=dict)
    #: scores by epoch and the best epoch's weights, in an early-stopped training; snapshots have none
    stopping: Mapping[str, Tensor] = field(default_factory=dict)


def capture(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    sparsity: Mapping[str, Tensor],
    *,
    step: int,
    total: int,
    history: Mapping[str, Tensor] | None = None,
    stopping: Mapping[str, Tensor] | None = None,
) -> TrainingState:
    """Copy the training as it stands between two steps; ``stopping`` holds copies already."""
    return TrainingState(
        step=step,
        total=total,
        model=_copies(_kept(unwrapped(model))),
        optimizer=optimizer_state(optimizer) if optimizer else {},
        sparsity=_copies(sparsity),
        history=_copies(history or {}),
        stopping=dict(stopping or {}),
    )


@torch.no_grad()
def restore_model(model: nn.Module, state: TrainingState) -> None:
    """Copy the state's weights into the model's own tensors; every name must be there."""
    if not state.model:
        return
    live = _kept(unwrapped(model))
    for name in sorted(live.keys() ^ state.model.keys()):
        raise RecipeError(
            "the model and the saved training do not match: only "
            f"{'the model' if name in live else 'the training'} has this parameter",
            where=name,
            todo="give the same model class and task head",
        )
    for name, tensor in live.items():
        if tensor.shape != state.model[name].shape:
            raise RecipeError(
                f"the model has the shape {tuple(tensor.shape)}, the saved training "
                f"{tuple(state.model[name].shape)}",
                where=name,
                todo="give the same model class and task head",
            )
        tensor.copy_(state.model[name])


def save_state(folder: Path, state: TrainingState, about: Mapping[str, Any] | None = None) -> None:
    """Write the state so that ``folder`` is either absent or whole; ``about`` is JSON to recognise it by."""
    sibling = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:12]}.partial")
    sibling.mkdir(parents=True)
    try:
        for part in (*PARTS, EARLY_STOPPING) if state.stopping else PARTS:
            write_tensors(sibling / f"{part}.safetensors", getattr(state, part))
        write_json(
            sibling / "state.json", {"step": state.step, "total": state.total, "about": dict(about or {})}
        )
        files = {file.name: _sizes(file) for file in sorted(sibling.iterdir())}
        write_json(sibling / MANIFEST, {"format": FORMAT, "files": files})
        sibling.rename(folder)
    except BaseException:
        shutil.rmtree(sibling, ignore_errors=True)
        raise
    fsync_folder(folder.parent)


def load_state(folder: Path, about: Mapping[str, Any] | None = None) -> TrainingState:
    """Read a state after every file has been checked; a damaged one is a CorruptArtifact."""
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CorruptArtifact("the saved training has a format this version cannot read", where=str(folder))
    files = manifest.get("files")
    parts = PARTS
    if isinstance(files, dict) and f"{EARLY_STOPPING}.safetensors" in files:
        parts = (*PARTS, EARLY_STOPPING)
    expected = {"state.json", *(f"{part}.safetensors" for part in parts)}
    if not isinstance(files, dict) or set(files) != expected:
        raise CorruptArtifact("the manifest does not list the files of a saved training", where=str(folder))
    for name in sorted(expected):
        path = folder / name
        if not path.is_file() or _sizes(path) != files[name]:
            raise CorruptArtifact("a file is missing or is not the one that was written", where=str(path))
    facts = read_json(folder / "state.json")
    if not isinstance(facts, dict) or not {"step", "total", "about"} <= facts.keys():
        raise CorruptArtifact("state.json does not describe a training", where=str(folder))
    if about is not None and facts["about"] != dict(about):
        raise CorruptArtifact("the saved training belongs to another run", where=str(folder))
    tensors = {part: read_tensors(folder / f"{part}.safetensors") for part in parts}
    return TrainingState(step=facts["step"], total=facts["total"], **tensors)


def _kept(model: nn.Module) -> dict[str, Tensor]:
    """Parameters (tied ones once) and the buffers that a saved model would have."""
    persistent = model.state_dict(keep_vars=True).keys()
    named = dict(model.named_parameters())
    return named | {name: buffer for name, buffer in model.named_buffers() if name in persistent}


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def _sizes(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
