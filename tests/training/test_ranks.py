"""Shares of a batch: every example once, parts of equal number in every process."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tombola.training.ranks import ALONE, Ranks


@given(examples=st.integers(1, 70), size=st.integers(1, 5), micro=st.none() | st.integers(1, 20))
def test_every_example_counts_once_over_all_processes(examples: int, size: int, micro: int | None) -> None:
    indices = np.arange(100, 100 + examples)
    shares = [Ranks(rank, size).micro_batches(indices, micro) for rank in range(size)]
    assert len({len(parts) for parts in shares}) == 1, "processes would wait for each other for ever"
    counted = [int(i) for parts in shares for part, weight in parts if weight for i in part]
    assert sorted(counted) == indices.tolist()
    for parts in shares:
        for part, weight in parts:
            assert 1 <= len(part) <= (micro or examples)
            assert weight in (0.0, 1.0)


def test_alone_the_batch_is_one_part() -> None:
    ((part, weight),) = ALONE.micro_batches(np.array([5, 3, 9]), None)
    assert part.tolist() == [5, 3, 9]
    assert weight == 1.0
    assert ALONE.stream == ()
    assert Ranks(2, 3).stream == (2,)
