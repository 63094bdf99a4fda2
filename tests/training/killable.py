"""A training in a process of its own, checkpointing after every step, for tests that kill it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.training.tiny_training import RECIPE, make_data, make_mask, make_model, run, weights_of
from tests.training.toy_sparsity import LearnedMask, SwitchingMasks

from tombola.files import write_json, write_tensors
from tombola.training import stopping as stopping_module
from tombola.training.loop import evaluate
from tombola.training.recipe import Numerics
from tombola.training.sparsity import Dense, FixedMask, Sparsity
from tombola.training.stopping import Stopping

KINDS = ("dense", "fixed", "learned, extra group", "learned, second optimizer", "switching")
SNAPSHOTS = (0, 4, 13, 21)
#: The second of its epochs is the best; it stops after the fourth of six, 28 steps.
STOPPED = "stopped early"
STOPPED_RECIPE = RECIPE.with_(early_stopping=True, patience=2, epochs=6)
SCRIPT = (70.0, 80.0, 80.0, 75.0, 99.0, 99.0)


def make_sparsity(kind: str, folder: Path) -> Sparsity:
    if kind == "dense":
        return Dense()
    if kind in ("fixed", STOPPED):
        return FixedMask(make_mask(make_model(folder)))
    if kind == "switching":
        return SwitchingMasks([make_mask(make_model(folder), seed=seed) for seed in range(3)])
    return LearnedMask(second_optimizer="second" in kind)


def scripted(stopping: Stopping, script: Sequence[float]) -> None:
    """Let the epochs score as the script says; which epoch it is, only the stopping itself knows."""
    stopping_module.score = lambda *_: {"accuracy": script[len(stopping.epochs)]}


def train_to_the_end(folder: Path, kind: str, checkpoints: Path | None, out: Path) -> None:
    """Train, evaluate, and write everything that must come out the same."""
    model, data = make_model(folder), make_data(folder)
    recipe = RECIPE.with_(optimizer="adamax") if kind == "dense" else RECIPE
    stopping = None
    if kind == STOPPED:
        recipe = STOPPED_RECIPE
        stopping = Stopping(recipe, data, ("accuracy",), Numerics())
        scripted(stopping, SCRIPT)
    result = run(
        model,
        data,
        recipe,
        sparsity=make_sparsity(kind, folder),
        checkpoint_folder=checkpoints,
        checkpoint_every_seconds=0.0,
        snapshots=SNAPSHOTS,
        stopping=stopping,
    )
    out.mkdir(parents=True)
    write_tensors(out / "weights.safetensors", weights_of(model))
    for step, state in result.snapshots.items():
        tensors = {**state.model, **state.optimizer, **state.sparsity}
        write_tensors(out / f"snapshot-{step}.safetensors", tensors)
    facts = {
        "log": json.loads(json.dumps([asdict(row) for row in result.log])),
        "mask": result.mask.digest() if result.mask else None,
        "examples": result.examples,
        "steps": result.steps,
        "epochs": [asdict(epoch) for epoch in result.epochs],
        "best epoch": result.best_epoch,
        "logits": evaluate(model, data, Numerics()).tolist(),
    }
    write_json(out / "facts.json", facts)


def serve() -> None:
    """Fork a training for every line of JSON on stdin, so that each starts without importing anything."""
    for line in sys.stdin:
        folder, kind, checkpoints, out = json.loads(line)
        child = os.fork()
        if child == 0:
            train_to_the_end(Path(folder), kind, Path(checkpoints), Path(out))
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
    make_data(Path(sys.argv[1]))
    serve()
