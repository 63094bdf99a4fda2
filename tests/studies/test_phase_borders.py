"""The borders of the phases, on curves whose borders anybody can see."""

from __future__ import annotations

import pytest

from tombola.studies.phase_borders import Borders, borders

PAPER = {0.0: 80.0, 0.2: 81.0, 0.4: 82.0, 0.6: 79.0, 0.8: 60.0}
FALLING = {0.2: 78.0, 0.4: 75.0, 0.6: 70.0, 0.8: 61.0}


def test_the_papers_three_phases():
    found = borders(PAPER, FALLING)
    assert found == Borders(best=0.4, lost=0.8)
    assert [found.phase(level) for level in PAPER] == [None, "I", "I", "II", "III"]


def test_without_a_ticket_above_the_full_model_there_is_no_phase_one():
    found = borders({**PAPER, 0.0: 90.0}, FALLING)
    assert found == Borders(best=0.0, lost=0.8)
    assert [found.phase(level) for level in PAPER] == [None, "II", "II", "II", "III"]


def test_tickets_that_never_lose_to_random_ones_have_no_phase_three():
    found = borders(PAPER, dict.fromkeys(FALLING, 10.0))
    assert found.lost is None
    assert found.phase(0.8) == "II"


def test_a_tie_with_random_tickets_begins_phase_three():
    assert borders(PAPER, {**FALLING, 0.6: 79.0}).lost == 0.6


def test_random_tickets_that_win_before_the_best_level_begin_nothing():
    assert borders(PAPER, {**FALLING, 0.2: 81.5}).lost == 0.8


def test_random_tickets_that_win_at_the_best_level_leave_no_phase_two():
    found = borders(PAPER, {**FALLING, 0.4: 82.0})
    assert found == Borders(best=0.4, lost=0.4)
    assert [found.phase(level) for level in PAPER] == [None, "I", "I", "III", "III"]


def test_of_equal_levels_the_smaller_ticket_ends_phase_one():
    assert borders({**PAPER, 0.2: 82.0}, FALLING).best == 0.4
    assert borders({**PAPER, 0.6: 82.0}, FALLING).best == 0.6


@pytest.mark.parametrize("winning", [PAPER, {0.0: 1.0, 0.5: 2.0}])
def test_without_random_tickets_the_third_phase_is_unknown(winning):
    assert borders(winning, {}).lost is None
