"""Schedules: pure functions of the step, at both ends and against transformers' own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tombola.training.schedules import learning_rate_factor


def test_both_ends() -> None:
    assert learning_rate_factor(0, 100) == 1.0
    assert learning_rate_factor(99, 100) == 0.01
    assert learning_rate_factor(100, 100) == 0.0
    assert learning_rate_factor(0, 100, 10) == 0.0
    assert learning_rate_factor(5, 100, 10) == 0.5
    assert learning_rate_factor(10, 100, 10) == 1.0
    assert learning_rate_factor(55, 100, 10) == 0.5
    assert learning_rate_factor(99, 100, 10) == pytest.approx(1 / 90)
    assert learning_rate_factor(100, 100, 10) == 0.0


def test_warm_up_all_the_way() -> None:
    assert [learning_rate_factor(step, 4, 4) for step in range(5)] == [0.0, 0.25, 0.5, 0.75, 0.0]


@pytest.mark.parametrize("warmup", [0, 3, 10])
def test_it_is_the_schedule_of_the_papers_code(warmup: int) -> None:
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_linear_schedule_with_warmup(optimizer, warmup, 20)
    for step in range(20):
        assert learning_rate_factor(step, 20, warmup) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()


@given(total=st.integers(1, 500), share=st.floats(0, 1))
def test_it_lies_between_zero_and_one_and_falls_after_the_warm_up(total: int, share: float) -> None:
    warmup = int(share * total)
    factors = [learning_rate_factor(step, total, warmup) for step in range(total + 1)]
    assert all(0.0 <= factor <= 1.0 for factor in factors)
    assert factors[-1] == 0.0
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    assert all(factor > 0 for factor in factors[warmup:-1])
