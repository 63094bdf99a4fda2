"""Checkpoints: killed anywhere, damaged anyhow, a training ends in the bytes it would have had."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tests.training.killable import KINDS, SNAPSHOTS, STOPPED, make_sparsity, train_to_the_end
from tests.training.tiny_training import NUMERICS, RECIPE, bits, make_model, run, same_bytes, weights_of

from tombola.errors import CorruptArtifact
from tombola.tasks.encoding import Encoded
from tombola.training import stopping
from tombola.training.state import TrainingState, load_state, save_state


class KilledError(Exception):
    """Stands for a kill between two steps."""


@pytest.fixture(scope="module")
def undisturbed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """What each kind of training comes to when nobody disturbs it and nothing is saved."""
    outcomes = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopping, "score", stopping.score)  # STOPPED puts a script in its place
        for kind in (*KINDS, STOPPED):
            out = tmp_path_factory.mktemp("undisturbed") / "out"
            train_to_the_end(folder, kind, None, out)
            outcomes[kind] = _contents(out)
    return outcomes


@pytest.fixture(scope="module")
def trainer(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has imported everything and forks trainings."""
    command = [sys.executable, "-m", "tests.training.killable", str(folder)]
    paths = os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("kind", [*KINDS, STOPPED])
def test_kill_9_at_random_moments(
    kind: str,
    folder: Path,
    trainer: subprocess.Popen[str],
    undisturbed: dict[str, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    checkpoints, out = tmp_path / "checkpoints", tmp_path / "out"
    assert trainer.stdin is not None
    assert trainer.stdout is not None
    draw = random.Random(time.time_ns())
    seen, code = [-1], -1
    while code:
        trainer.stdin.write(json.dumps([str(folder), kind, str(checkpoints), str(out)]) + "\n")
        trainer.stdin.flush()
        child = int(trainer.stdout.readline())
        # A few steps further each time, then at any moment of the steps and saves that follow.
        goal = seen[-1] + draw.randint(2, 6)
        _wait_for(lambda goal=goal: _newest(checkpoints) >= goal or out.exists())
        time.sleep(draw.uniform(0.0, 0.05))
        if seen[-1] < SNAPSHOTS[-1]:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        code = int(trainer.stdout.readline())
        if code:
            shutil.rmtree(out, ignore_errors=True)
            seen.append(_newest(checkpoints))
    assert len(seen) > 2, "it was killed several times"
    assert sorted(seen) == seen
    assert _contents(out) == undisturbed[kind], f"killed after {seen} steps"
    assert not list(checkpoints.glob("set-aside-*"))


def _newest(checkpoints: Path) -> int:
    return max((int(path.name[5:]) for path in checkpoints.glob("step-*")), default=-1)


def _wait_for(there: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not there():
        assert time.monotonic() < until
        time.sleep(0.002)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stops", [(1,), (20,), (3, 4, 14)])
def test_stopped_between_any_steps_and_resumed(
    kind: str, stops: tuple[int, ...], folder: Path, data: Encoded, tmp_path: Path
) -> None:
    whole = make_model(folder)
    expected = run(whole, data, sparsity=make_sparsity(kind, folder), snapshots=SNAPSHOTS)
    for stop in stops:

        def stopping(step: int, total: int, seconds: float, stop: int = stop) -> None:
            if step == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(
                make_model(folder),
                data,
                sparsity=make_sparsity(kind, folder),
                snapshots=SNAPSHOTS,
                checkpoint_folder=tmp_path,
                progress=stopping,
            )
        assert (tmp_path / f"step-{stop:010d}").is_dir(), "Ctrl-C leaves a state to go on from"
    model = make_model(folder, head_seed=5)
    steps: list[int] = []
    result = run(
        model,
        data,
        sparsity=make_sparsity(kind, folder),
        snapshots=SNAPSHOTS,
        checkpoint_folder=tmp_path,
        progress=lambda step, total, seconds: steps.append(step),
    )
    assert steps == list(range(stops[-1] + 1, 22)), "finished steps are not done again"
    assert same_bytes(weights_of(model), weights_of(whole))
    assert result.log == expected.log
    assert result.mask == expected.mask
    assert result.snapshots.keys() == expected.snapshots.keys() == set(SNAPSHOTS)
    for step in SNAPSHOTS:
        one, other = result.snapshots[step], expected.snapshots[step]
        assert same_bytes(dict(one.model), dict(other.model))
        assert same_bytes(dict(one.optimizer), dict(other.optimizer))
        assert same_bytes(dict(one.sparsity), dict(other.sparsity))


def _stopped_at(stop: int, folder: Path, data: Encoded, checkpoints: Path, **settings: object) -> None:
    def stopping(step: int, total: int, seconds: float) -> None:
        if step == stop:
            raise KilledError

    with pytest.raises(KilledError):
        run(
            make_model(folder),
            data,
            checkpoint_folder=checkpoints,
            checkpoint_every_seconds=0.0,
            progress=stopping,
            **settings,
        )


def test_the_two_newest_checkpoints_are_kept(folder: Path, data: Encoded, tmp_path: Path) -> None:
    _stopped_at(9, folder, data, tmp_path, snapshots=(3,))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["snapshot-0000000003", "step-0000000007", "step-0000000008"]


def test_checkpoints_are_a_matter_of_time(folder: Path, data: Encoded, tmp_path: Path) -> None:
    run(make_model(folder), data, checkpoint_folder=tmp_path, checkpoint_every_seconds=3600)
    assert list(tmp_path.iterdir()) == []


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


DAMAGE = {
    "a flipped bit in the weights": lambda folder: _flip(folder / "model.safetensors"),
    "a flipped bit in the optimizer": lambda folder: _flip(folder / "optimizer.safetensors"),
    "truncated": lambda folder: (folder / "optimizer.safetensors").write_bytes(b"\0" * 7),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "a manifest of half the length": lambda folder: (folder / "manifest.json").write_text('{"format": 1,'),
    "a manifest that lists less": lambda folder: (folder / "manifest.json").write_text(
        '{"format": 1, "files": {}}'
    ),
    "a newer format": lambda folder: (folder / "manifest.json").write_text('{"format": 99}'),
    "a missing file": lambda folder: (folder / "history.safetensors").unlink(),
    "other facts": lambda folder: (folder / "state.json").write_text('{"step": 1, "total": 21}'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_used(
    damage: str, folder: Path, data: Encoded, tmp_path: Path
) -> None:
    whole = make_model(folder)
    log = run(whole, data).log
    _stopped_at(9, folder, data, tmp_path)
    DAMAGE[damage](tmp_path / "step-0000000008")
    steps: list[int] = []
    model = make_model(folder)
    with pytest.warns(UserWarning, match="set aside"):
        result = run(model, data, checkpoint_folder=tmp_path, progress=lambda step, *_: steps.append(step))
    assert steps[0] == 8, "the checkpoint after 7 steps is gone on from"
    assert [path.name.startswith("set-aside-step-0000000008") for path in tmp_path.glob("set-aside-*")] == [
        True
    ]
    assert same_bytes(weights_of(model), weights_of(whole))
    assert result.log == log


def test_all_damaged_starts_again_from_the_start(folder: Path, data: Encoded, tmp_path: Path) -> None:
    whole = make_model(folder)
    run(whole, data)
    _stopped_at(9, folder, data, tmp_path)
    for checkpoint in tmp_path.glob("step-*"):
        DAMAGE["no manifest"](checkpoint)
    model = make_model(folder)
    with pytest.warns(UserWarning, match="set aside"):
        run(model, data, checkpoint_folder=tmp_path)
    assert same_bytes(weights_of(model), weights_of(whole))


def test_a_damaged_snapshot_is_taken_again(folder: Path, data: Encoded, tmp_path: Path) -> None:
    whole = run(make_model(folder), data, snapshots=(3,)).snapshots[3]
    _stopped_at(9, folder, data, tmp_path, snapshots=(3,))
    DAMAGE["a flipped bit in the weights"](tmp_path / "snapshot-0000000003")
    with pytest.warns(UserWarning, match="set aside"):
        again = run(make_model(folder), data, checkpoint_folder=tmp_path, snapshots=(3,)).snapshots[3]
    assert same_bytes(dict(again.model), dict(whole.model))


@pytest.mark.parametrize("change", [{"seed": 1}, {"purpose": "retrain"}, {"run": "another model"}])
def test_a_checkpoint_of_another_run_is_not_gone_on_from(
    change: dict[str, object], folder: Path, data: Encoded, tmp_path: Path
) -> None:
    whole = make_model(folder)
    run(whole, data, **change)
    _stopped_at(9, folder, data, tmp_path)
    model = make_model(folder)
    with pytest.warns(UserWarning, match="another run"):
        run(model, data, checkpoint_folder=tmp_path, **change)
    assert same_bytes(weights_of(model), weights_of(whole))


def test_leftovers_of_a_killed_save_are_swept_away(folder: Path, data: Encoded, tmp_path: Path) -> None:
    (tmp_path / ".step-0000000003.abc.partial").mkdir()
    (tmp_path / ".step-0000000003.abc.partial" / "model.safetensors").write_bytes(b"half")
    run(make_model(folder), data, checkpoint_folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_may_not_write_only_reads(folder: Path, data: Encoded, tmp_path: Path) -> None:
    from tombola.training.checkpoint import Checkpoints

    _stopped_at(9, folder, data, tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    DAMAGE["no manifest"](tmp_path / "step-0000000008")
    about = load_state_about(tmp_path / "step-0000000007")
    reader = Checkpoints(
        tmp_path, about, every_seconds=0.0, snapshots=(), on_snapshot=lambda state: None, writes=False
    )
    state = reader.newest()
    assert state is not None
    assert state.step == 7
    reader.between_steps(7, lambda step: pytest.fail("nothing is captured"))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def load_state_about(folder: Path) -> dict[str, object]:
    from tombola.files import read_json

    return read_json(folder / "state.json")["about"]


def test_a_state_comes_back_from_its_folder_bit_for_bit(folder: Path, data: Encoded, tmp_path: Path) -> None:
    state = run(make_model(folder), data, snapshots=(7,)).snapshots[7]
    save_state(tmp_path / "seven", state)
    again = load_state(tmp_path / "seven")
    assert (again.step, again.total) == (7, 21)
    assert same_bytes(dict(again.model), dict(state.model))
    assert same_bytes(dict(again.optimizer), dict(state.optimizer))
    assert not list(tmp_path.rglob("*.pt")) + list(tmp_path.rglob("*.pkl"))
    with pytest.raises(CorruptArtifact, match="missing"):
        load_state(tmp_path / "eight")


def test_a_state_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tombola.training import state as module

    def full_disk(path: Path, value: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(module, "write_json", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_state(tmp_path / "seven", TrainingState(step=7, total=21, model={"w": torch.ones(2)}))
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_optimizer_shares_nothing_with_the_state(folder: Path, data: Encoded) -> None:
    """Trap 1 again: torch's own load_state_dict would alias tensors on the CPU."""
    state = run(make_model(folder), data, snapshots=(7,)).snapshots[7]
    before = {name: bits(value) for name, value in {**state.model, **state.optimizer}.items()}
    run(make_model(folder), data, RECIPE, numerics=NUMERICS, resume_from=state)
    assert before == {name: bits(value) for name, value in {**state.model, **state.optimizer}.items()}


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
