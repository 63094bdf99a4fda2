"""What is said when somebody presses Ctrl-C, and when the work stops."""

from __future__ import annotations

import signal

import pytest
from tests.engine.toy_steps import number_step

from tombola.cli.progress import Lines, Watched

STEP = number_step(1)


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def stopped(work) -> None:
    """``work`` under watch, which Ctrl-C must end."""
    watched = Watched(Lines())
    with pytest.raises(KeyboardInterrupt), watched:
        work(watched)


def test_within_a_training_it_stops_after_the_step(capsys):
    said = []

    def work(watched):
        watched.began(STEP)
        watched.moved(STEP, 1, 3)
        press_ctrl_c()
        said.append(capsys.readouterr().err)
        watched.moved(STEP, 2, 3)
        pytest.fail("another step was begun")

    stopped(work)
    assert said[0].endswith("stopping after this step …\n")
    assert "type the same command again" in capsys.readouterr().err


def test_outside_a_training_it_says_so_and_stops_at_once(capsys):
    """Workers that still load their model hear of it late: nobody should wonder and press again."""
    said = []

    def work(_):
        try:
            press_ctrl_c()
            pytest.fail("it went on")
        finally:  # where workers are waited for
            said.append(capsys.readouterr().err)

    stopped(work)
    assert said == ["stopping …\n"]
    assert "type the same command again" in capsys.readouterr().err


def test_the_second_time_it_waits_for_nothing(capsys):
    def work(watched):
        watched.moved(STEP, 1, 3)
        press_ctrl_c()
        press_ctrl_c()
        pytest.fail("it went on")

    stopped(work)
    assert capsys.readouterr().err.count("stopping") == 1


def test_afterwards_ctrl_c_is_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    with Watched(Lines()):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
