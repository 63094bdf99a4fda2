"""The split of data that come without one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola.errors import DataError
from tombola.tasks.records import Records
from tombola.tasks.splitting import selection_share, stratified_split


def classes(counts: list[int]) -> Records:
    targets = tuple(target for target, count in enumerate(counts) for _ in range(count))
    texts = tuple(f"t{row}" for row in range(len(targets)))
    return Records("all", texts, None, targets, tuple(f"c{target}" for target in range(len(counts))))


def test_shares_are_kept_exactly() -> None:
    train, dev = stratified_split(classes([50, 30, 20]), 10, seed=0, rule="r")
    assert dev.class_counts() == {"c0": 5, "c1": 3, "c2": 2}
    assert train.class_counts() == {"c0": 45, "c1": 27, "c2": 18}
    assert (train.split, dev.split, train.rule) == ("train", "dev", "r")


def test_seed_decides() -> None:
    records = classes([50, 50])
    assert stratified_split(records, 10, seed=0, rule="r") == stratified_split(records, 10, seed=0, rule="r")
    assert (
        stratified_split(records, 10, seed=0, rule="r")[1]
        != stratified_split(records, 10, seed=1, rule="r")[1]
    )


@given(st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(1, 40), st.integers(0, 5))
def test_every_example_is_in_exactly_one_half(counts: list[int], dev_size: int, seed: int) -> None:
    records = classes(counts)
    if dev_size > len(records) - len(counts):
        with pytest.raises(DataError, match=r"too few|cannot take"):
            stratified_split(records, dev_size, seed=seed, rule="r")
        return
    train, dev = stratified_split(records, dev_size, seed=seed, rule="r")
    assert len(dev) == dev_size
    assert sorted(train.first + dev.first) == sorted(records.first)
    assert all(count >= 1 for count in train.class_counts().values())
    for label, count in dev.class_counts().items():
        share = records.class_counts()[label] * dev_size / len(records)
        # Exact shares, but where a class must leave one example to train.
        assert abs(count - share) < 1 or 1 in counts or dev_size > len(records) / 2


def test_numbers_are_spread_over_their_range() -> None:
    records = Records("all", tuple(map(str, range(100))), None, tuple(float(n) for n in range(100)), ())
    _, dev = stratified_split(records, 10, seed=0, rule="r")
    assert [int(target) // 10 for target in dev.targets or ()] == list(range(10))


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(DataError, match="without targets"):
        stratified_split(Records("all", ("a", "b"), None, None, ("x", "y")), 1, seed=0, rule="r")
    with pytest.raises(DataError, match="cannot take"):
        stratified_split(classes([1, 1]), 2, seed=0, rule="r")


@given(st.integers(2, 200), st.floats(0.01, 0.99), st.integers(0, 5))
def test_the_share_to_choose_by_and_the_rest_to_report_on_are_all_examples_and_never_meet(
    examples: int, share: float, seed: int
) -> None:
    """Trap 16."""
    chosen, others = selection_share(examples, share, seed)
    assert sorted(chosen + others) == list(range(examples))
    assert chosen == sorted(chosen)
    assert others == sorted(others)
    assert chosen
    assert others
    assert abs(len(chosen) - share * examples) <= 0.5 or 1 in (len(chosen), len(others))


def test_a_tenth_of_the_papers_development_sets() -> None:
    sizes = {"cola": 1043, "mrpc": 408, "rte": 277, "sts-b": 1500, "a half rounds up": 25}
    tenths = {task: len(selection_share(size, 0.1, 0)[0]) for task, size in sizes.items()}
    assert tenths == {"cola": 104, "mrpc": 41, "rte": 28, "sts-b": 150, "a half rounds up": 3}


def test_the_share_is_a_function_of_seed_and_size_alone() -> None:
    """Pinned: what was chosen by must still be known years after the choice."""
    assert selection_share(30, 0.1, 0) == selection_share(30, 0.1, 0)
    assert selection_share(30, 0.1, 0)[0] == PINNED_SHARE
    assert len({tuple(selection_share(30, 0.1, seed)[0]) for seed in range(20)}) > 15


PINNED_SHARE = [6, 8, 18]


def test_every_example_is_chosen_as_often_as_any_other() -> None:
    counts = [0] * 10
    for seed in range(1000):
        for row in selection_share(10, 0.3, seed)[0]:
            counts[row] += 1
    assert all(240 < count < 360 for count in counts), counts  # 300 ± 4 standard deviations of 14.5


@pytest.mark.parametrize(("examples", "share"), [(1, 0.1), (0, 0.1), (10, 0.0), (10, 1.0), (10, -0.1)])
def test_a_share_that_leaves_nothing_on_one_side_is_refused(examples: int, share: float) -> None:
    with pytest.raises(DataError, match="cannot be set apart"):
        selection_share(examples, share, 0)
