"""Batches: every example once, another composition each epoch (trap 9), little padding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tombola.errors import DataError, RecipeError
from tombola.tasks.batching import collate, epoch_batches, evaluation_batches, padding_share
from tombola.tasks.encoding import Encoded

ORDERS = st.sampled_from(["buckets", "random"])


def lengths_like_sst_2(count: int = 4000) -> np.ndarray:
    """A mean of 13 tokens and a long tail, as SST-2 has."""
    return np.clip(np.random.default_rng(0).lognormal(2.4, 0.6, count), 3, 66).astype(int)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 128), max_size=200),
    st.integers(1, 17),
    st.integers(0, 3),
    st.integers(0, 3),
    ORDERS,
    st.integers(1, 5),
)
def test_every_example_exactly_once(
    lengths: list[int], size: int, seed: int, epoch: int, order: str, window: int
) -> None:
    batches = epoch_batches(lengths, size, seed=seed, epoch=epoch, order=order, window=window)  # type: ignore[arg-type]
    everything = [int(row) for batch in batches for row in batch]
    assert sorted(everything) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // size)
    assert sum(len(batch) < size for batch in batches) <= 1
    again = epoch_batches(lengths, size, seed=seed, epoch=epoch, order=order, window=window)  # type: ignore[arg-type]
    assert all(np.array_equal(one, other) for one, other in zip(batches, again, strict=True))


@pytest.mark.parametrize("order", ["buckets", "random"])
def test_each_epoch_has_another_composition(order: str) -> None:
    """Trap 9: not only another order of the same batches, other batches."""
    lengths = lengths_like_sst_2(1000)
    seen: set[frozenset[int]] = set()
    for epoch in range(3):
        batches = epoch_batches(lengths, 16, seed=0, epoch=epoch, order=order)  # type: ignore[arg-type]
        composition = {frozenset(batch.tolist()) for batch in batches}
        assert len(composition & seen) == 0
        seen |= composition


def test_composition_changes_even_when_one_window_holds_everything() -> None:
    lengths = np.repeat(np.arange(5, 15), 20)
    one, other = (
        {frozenset(batch.tolist()) for batch in epoch_batches(lengths, 16, seed=0, epoch=epoch)}
        for epoch in (0, 1)
    )
    assert len(one & other) <= 1


def test_seed_and_global_generator() -> None:
    lengths = lengths_like_sst_2(200)
    first = epoch_batches(lengths, 16, seed=0, epoch=0)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    second = epoch_batches(lengths, 16, seed=0, epoch=0)
    assert torch.equal(before, torch.get_rng_state())
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[0], epoch_batches(lengths, 16, seed=1, epoch=0)[0])


def test_order_is_pinned() -> None:
    """Runs are named by what they are: the same seed must mean the same batches tomorrow."""
    batches = epoch_batches([5, 9, 3, 7, 4, 8, 6], 2, seed=0, epoch=0, window=2)
    assert [batch.tolist() for batch in batches] == [[4, 3], [6], [5, 1], [2, 0]]


def test_buckets_cut_the_padding() -> None:
    lengths = lengths_like_sst_2()
    shuffled = padding_share(lengths, epoch_batches(lengths, 32, seed=0, epoch=0, order="random"))
    buckets = padding_share(lengths, epoch_batches(lengths, 32, seed=0, epoch=0))
    sorted_once = padding_share(lengths, evaluation_batches(lengths, 32))
    assert shuffled > 0.55
    assert buckets < 0.25
    assert sorted_once <= buckets
    full = [np.arange(start, start + 32) for start in range(0, 4000, 32)]
    assert padding_share(np.full(4000, 16), full) == 0.0


def test_buckets_shuffle_long_and_short_batches() -> None:
    """Sorted inside a window, but the batches themselves come in random order."""
    lengths = lengths_like_sst_2()
    longest = [int(lengths[batch].max()) for batch in epoch_batches(lengths, 32, seed=0, epoch=0)]
    rises = sum(b > a for a, b in pairwise(longest))
    assert 0.3 < rises / len(longest) < 0.7


def test_evaluation_is_longest_first() -> None:
    batches = evaluation_batches([3, 9, 5, 9], 3)
    assert [batch.tolist() for batch in batches] == [[1, 3, 2], [0]]
    assert evaluation_batches([], 3) == []


def test_sizes_are_checked() -> None:
    with pytest.raises(RecipeError, match="0 is not a size"):
        epoch_batches([1], 0, seed=0, epoch=0)
    with pytest.raises(RecipeError, match="no order 'sorted'"):
        epoch_batches([1], 1, seed=0, epoch=0, order="sorted")  # type: ignore[arg-type]


def encoded(targets: np.ndarray | None, types: bool = True, max_length: int = 16) -> Encoded:
    """Three examples of 2, 5 and 11 tokens: 10 11 | 20 21 22 23 24 | 30 … 40."""
    ids = np.array([10, 11, *range(20, 25), *range(30, 41)], np.int32)
    return Encoded(
        ids=ids,
        offsets=np.array([0, 2, 7, 18]),
        type_ids=(ids % 2).astype(np.uint8) if types else None,
        targets=targets,
        max_length=max_length,
        truncated=0,
        pad_id=99,
        pad_type_id=0,
    )


def test_collate_pads_to_the_longest() -> None:
    batch = collate(encoded(np.array([1, 0, 1])), [1, 0], multiple=1)
    assert batch["input_ids"].tolist() == [[20, 21, 22, 23, 24], [10, 11, 99, 99, 99]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    assert batch["token_type_ids"].tolist() == [[0, 1, 0, 1, 0], [0, 1, 0, 0, 0]]
    assert batch["labels"].tolist() == [0, 1]
    assert {tensor.dtype for tensor in batch.values()} == {torch.int64}


def test_collate_widths() -> None:
    data = encoded(None)
    assert collate(data, [0, 1])["input_ids"].shape == (2, 8)
    assert collate(data, [2])["input_ids"].shape == (1, 16)
    assert collate(encoded(None, max_length=13), [2])["input_ids"].shape == (1, 13), "never past max_length"
    assert collate(data, np.array([0]), pad_to=16)["input_ids"].shape == (1, 16)
    with pytest.raises(DataError, match="11 tokens does not fit into 8"):
        collate(data, [2], pad_to=8)
    with pytest.raises(DataError, match="at least one example"):
        collate(data, [])
    assert "labels" not in collate(data, [0])
    assert "token_type_ids" not in collate(encoded(None, types=False), [0])


def test_numbers_stay_float32() -> None:
    batch = collate(encoded(np.array([0.5, 1.5, 2.5], np.float32)), [2, 0])
    assert batch["labels"].dtype == torch.float32
    assert batch["labels"].tolist() == [2.5, 0.5]


def test_a_small_set_is_not_cut_the_same_way_in_every_epoch():
    """Trap 9 where everything fits into one window: few pairs of examples meet again."""
    lengths = np.random.default_rng(0).integers(5, 60, 640)

    def pairs(epoch):
        batches = epoch_batches(lengths, 32, seed=1, epoch=epoch)
        return {(a, b) for batch in batches for a in batch.tolist() for b in batch.tolist() if a < b}

    first, second = pairs(0), pairs(1)
    assert len(first & second) / len(first) < 0.3
