"""Two processes train what one trains: gloo on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tests.training import two_processes

from tombola.errors import DataError, RecipeError, TrainingError
from tombola.files import read_tensors
from tombola.training.distributed import joined
from tombola.training.launch import launch
from tombola.training.recipe import Numerics

TARGET = "tests.training.two_processes"
TWO = Numerics(world_size=2)


def test_two_processes_equal_one(tmp_path: Path) -> None:
    """The same global batches, the last of 1 example; masks exact on both, weights the same bytes on both."""
    heard: list[str] = []
    answers = launch(f"{TARGET}:train_share", {"folder": str(tmp_path)}, TWO, on_line=heard.append)
    assert heard == ["process 0 is here"]
    with joined(Numerics()) as alone:
        weights, log = two_processes.trained(Numerics(), alone)
    assert min(norm for _, norm in log) > two_processes.RECIPE.clip, "clipping must be at work in this test"
    for name in ("whole", "parts"):
        first, second = (read_tensors(tmp_path / f"{name}-{rank}.safetensors") for rank in (0, 1))
        for parameter, expected in weights.items():
            assert torch.equal(first[parameter], second[parameter]), parameter
            torch.testing.assert_close(first[parameter], expected, rtol=1e-4, atol=1e-5, msg=parameter)
        torch.testing.assert_close(torch.tensor(answers[name]), torch.tensor(log), rtol=1e-4, atol=1e-6)
        assert (
            sorted(path.name for path in (tmp_path / f"checkpoints-{name}").iterdir())[-1]
            == "step-0000000006"
        )


@pytest.mark.slow
def test_the_error_of_the_process_that_failed_is_raised() -> None:
    with pytest.raises(DataError, match="row 7 has no label"):
        launch(f"{TARGET}:fail_in_the_second", {"how": "known"}, TWO)


@pytest.mark.slow
def test_a_process_that_dies_takes_the_others_along() -> None:
    with pytest.raises(TrainingError, match="process 1 of 2 ended with status 9"):
        launch(f"{TARGET}:fail_in_the_second", {"how": "dies"}, TWO)


@pytest.mark.slow
def test_a_launcher_that_is_killed_takes_its_processes_along() -> None:
    code = (
        "from tombola.training.launch import launch; from tombola.training.recipe import Numerics;"
        f"launch('{TARGET}:sleep_for_ever', {{}}, Numerics(), on_line=lambda line: print(line, flush=True))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    launcher = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert launcher.stdout is not None
    worker = int(launcher.stdout.readline())
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    launcher.stdout.close()
    for _ in range(100):
        if not _runs(worker):
            return
        time.sleep(0.1)
    pytest.fail("the process goes on without its launcher")


@pytest.mark.slow
def test_a_listener_that_fails_ends_the_launch() -> None:
    workers: list[int] = []

    def interrupt(line: str) -> None:
        workers.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(f"{TARGET}:sleep_for_ever", {}, Numerics(), on_line=interrupt)
    assert not _runs(workers[0])


def _runs(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_one_process_cannot_stand_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(RecipeError, match="for 2 processes, this is one of 1"), joined(TWO):
        pass


def test_a_training_for_two_does_not_run_alone_in_silence() -> None:
    """Its identity would say two processes, its bits would be one's."""
    with joined(Numerics()) as alone, pytest.raises(RecipeError, match="for 2 processes and runs on 1"):
        two_processes.trained(TWO, alone)
