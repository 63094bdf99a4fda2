"""A training killed, or refused by the disk, at every single operation on its checkpoints: the same bytes in the end.

Every step is followed by a checkpoint here. The first part trains a toy through the real loop at every fault there
is; the second runs a real search (a dense training with θi, its mask, a retraining) through the store.
"""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.engine import faults
from tests.engine.faults import Fault, in_memory
from tests.training.tiny_training import bits, run, weights_of
from torch import Tensor, nn

from tombola import api
from tombola.engine import attempts, inline
from tombola.engine.store import Store
from tombola.plan import train_step
from tombola.tasks.encoding import Encoded
from tombola.tasks.task import DataOptions
from tombola.training.checkpoint import Checkpoints
from tombola.training.recipe import Recipe
from tombola.training.state import load_state

__all__ = ["in_memory"]

#: Two steps, so three checkpoints, of which the first is let go; θ1 is asked for.
TOTAL, SNAPSHOTS = 2, (1,)
RECIPE = Recipe(learning_rate=1e-2, epochs=1, batch_size=8, max_length=8)


class Toy(nn.Module):
    """Mean of embeddings, dropout, a head: forty numbers that train in a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            self.words = nn.Embedding(10, 3)
            self.head = nn.Linear(3, 2)
        self.dropout = nn.Dropout(0.2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        weight = attention_mask.unsqueeze(-1).float()
        mean = (self.words(input_ids) * weight).sum(1) / weight.sum(1)
        return SimpleNamespace(logits=self.head(self.dropout(mean)))


DATA = Encoded(
    ids=np.arange(64) * 7 % 10,
    offsets=np.arange(17) * 4,
    type_ids=None,
    targets=np.arange(16) % 2,
    max_length=8,
    truncated=0,
    pad_id=0,
)


def train_in(
    folder: Path | None, steps: list[int] | None = None, recipe: Recipe = RECIPE, **settings: Any
) -> dict[str, bytes]:
    """Everything that must come out the same: weights, log, θi with their optimizers."""
    model = Toy()
    result = run(
        model,
        DATA,
        recipe,
        **{"snapshots": SNAPSHOTS, "log_every": 1, **settings},
        checkpoint_folder=folder,
        checkpoint_every_seconds=0.0,
        progress=lambda step, *_: steps.append(step) if steps is not None else None,
    )
    outcome = {name: bits(weight) for name, weight in weights_of(model).items()}
    outcome["log"] = repr(result.log).encode()
    for step, state in result.snapshots.items():
        for part in ("model", "optimizer"):
            outcome |= {f"{step} {name}": bits(tensor) for name, tensor in getattr(state, part).items()}
    return outcome


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, bytes]:
    return train_in(None)


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> list[faults.Operation]:
    root = tmp_path_factory.mktemp("counted")
    seen = faults.watch(root, lambda: train_in(root / "checkpoints"))
    assert sum(operation.kind == "rename" for operation in seen) >= TOTAL + len(SNAPSHOTS)
    return seen


def newest_to_go_on_from(folder: Path) -> int:
    """By reading them: the newest checkpoint that loads and whose earlier snapshots load too; 0 is the start."""
    found = 0
    for path in folder.glob("step-*"):
        step = load_state(path).step
        if all(load_state(folder / f"snapshot-{one:010d}") for one in SNAPSHOTS if one < step):
            found = max(found, step)
    return found


def strike(fault: Fault, folder: Path, undisturbed: dict[str, bytes]) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    code = faults.strike(folder, lambda: train_in(folder / "checkpoints"), fault)
    newest = newest_to_go_on_from(folder / "checkpoints")
    steps: list[int] = []
    with faults.Disk(folder).watched():
        assert train_in(folder / "checkpoints", steps) == undisturbed, fault
    assert steps == list(range(newest + 1, TOTAL + 1)), f"{fault}: it goes on where it was"
    assert not list(folder.rglob("*.partial")), fault
    return code


def test_killed_at_any_operation_it_goes_on_from_the_newest_whole_checkpoint(
    operations, undisturbed, in_memory
):
    for fault in faults.faults_for(operations, ("kill", "torn")):
        assert strike(fault, in_memory / "run", undisturbed) == faults.KILLED


@pytest.mark.parametrize(("error", "every"), [("EIO", 3), ("ENOSPC", 7), ("EROFS", 7)])
def test_refused_by_the_disk_it_says_so_and_goes_on_later(error, every, operations, undisturbed, in_memory):
    struck = faults.faults_for(operations, (error,))[::every]
    codes = Counter(strike(fault, in_memory / "run", undisturbed) for fault in struck)
    assert codes[faults.CLEAR] > codes[faults.ENDED]


def test_what_is_deleted_is_gone_at_once(undisturbed, tmp_path, monkeypatch):
    """A kill in the middle of a deletion must not leave what looks like a checkpoint."""
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: (Path(path) / "manifest.json").unlink())
    train_in(tmp_path)
    monkeypatch.undo()
    for path in tmp_path.glob("step-*"):
        load_state(path)


def test_a_checkpoint_that_cannot_be_read_is_set_aside_and_the_one_before_used(
    undisturbed, tmp_path, monkeypatch
):
    """What a dying disk does: not other bytes, but an error."""
    train_in(tmp_path)
    from tombola.training import state

    former = state.sha256_of

    def failing(path: Path) -> str:
        if path.parent.name == f"step-{TOTAL:010d}":
            raise OSError(5, "Input/output error", str(path))
        return former(path)

    monkeypatch.setattr(state, "sha256_of", failing)
    steps: list[int] = []
    with pytest.warns(UserWarning, match="set aside"):
        assert train_in(tmp_path, steps) == undisturbed
    assert steps == [TOTAL]


def test_going_back_for_a_snapshot_leaves_checkpoints_to_go_on_from(undisturbed, tmp_path):
    """θ2 is asked for after checkpoints 3 and 4 were made without it: until it is there again, they do not count,
    and must not push out those that do."""

    recipe = RECIPE.with_(batch_size=4)
    train_in(tmp_path, recipe=recipe, snapshots=())

    class Killed(Exception):
        pass

    def killed_after_two(done: int, *_: Any) -> None:
        if done == 2:
            raise Killed

    with pytest.raises(Killed):
        run(
            Toy(),
            DATA,
            recipe,
            checkpoint_folder=tmp_path,
            checkpoint_every_seconds=0.0,
            progress=killed_after_two,
            snapshots=(2,),
            log_every=1,
        )
    steps: list[int] = []
    again = train_in(tmp_path, steps, recipe, snapshots=(2,))
    assert steps[0] == 2, "the checkpoint after one step was kept"
    assert again == train_in(None, recipe=recipe, snapshots=(2,))
    assert len(list(tmp_path.glob("step-*"))) == 2


# -- a real search through the store ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def search(tiny_bert, sentences):
    return api.plan_find(
        str(tiny_bert),
        method="imp",
        sparsities=(0.3,),
        seeds=(0,),
        schedule="one_shot",
        rewind=0.34,
        data=DataOptions(data=sentences, text="text", label="label"),
        recipe=api.make_recipe(None, epochs=1, batch_size=64, learning_rate=1e-2, max_length=16),
        numerics=api.make_numerics(threads=1, device="cpu"),
    )


def contents(root: Path) -> dict[tuple[str, str], bytes]:
    store = Store(root)
    return {
        (identity, path.name): path.read_bytes()
        for identity in store
        for path in sorted(store.folder(identity).iterdir())
        if path.name != "timing.jsonl"
    }


def search_under_faults(search: Any, folder: Path, share: float) -> None:
    """Kill a real search at an even share of its operations, each time from nothing, and finish it."""

    def act() -> None:
        inline.run(search.graph, Store(root))

    root = folder / "undisturbed"
    operations = faults.watch(root, act)
    expected = contents(root)
    root = folder / "store"
    number = max(int(len(operations) * share), 1)
    for at in np.linspace(0, len(operations) - 1, number, dtype=int).tolist():
        shutil.rmtree(root, ignore_errors=True)
        kind = "torn" if operations[at].kind == "write" else "kill"
        where = f"{kind} at {operations[at]}"
        assert faults.strike(root, act, Fault(at, kind)) == faults.KILLED, where
        finished = set(Store(root))
        with faults.Disk(root).watched(), warnings.catch_warnings():
            warnings.simplefilter("error")
            act()
        assert contents(root) == expected, where
        begun = Counter(entry["run"] for entry in attempts.read(root) if entry["event"] == "began")
        assert all(begun[identity] == 1 for identity in finished), f"{where}: a finished step began again"


def test_a_real_search_killed_here_and_there(search, in_memory, monkeypatch):
    monkeypatch.setattr(train_step, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    search_under_faults(search, in_memory, 0.015)


@pytest.mark.slow
def test_a_real_search_killed_at_every_operation(search, in_memory, monkeypatch):
    monkeypatch.setattr(train_step, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    search_under_faults(search, in_memory, 1.0)


def test_the_checkpoints_of_the_search_are_really_made(search, tmp_path, monkeypatch):
    monkeypatch.setattr(train_step, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    saved = []
    former = Checkpoints.save
    monkeypatch.setattr(
        Checkpoints, "save", lambda self, state: (saved.append(state.step), former(self, state))
    )
    inline.run(search.graph, Store(tmp_path))
    assert len(saved) > 4
