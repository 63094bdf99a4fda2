"""Canonical records: what is equal has equal fingerprints, what differs has not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola.errors import DataError
from tombola.tasks.records import Records, as_single, seeded_order

PAIRS = Records("train", ("a b", "c"), ("d", "e f"), (0, 1), ("no", "yes"))


def test_fingerprint_is_pinned() -> None:
    assert PAIRS.fingerprint == "2b4c302ff049fae35853fa47eccf60796749b33d2a9791cb350dfe7a7e236c24"
    assert (
        Records("dev", ("x",), None, (2.5,), ()).fingerprint
        == "e45414cb9d00fa149b8509d0cc9079349b47aed6a020fd76e8fcbb61cf0fe175"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"split": "dev"},
        {"first": ("a  b", "c")},
        {"first": ("a b c", "")},
        {"second": None},
        {"second": ("e f", "d")},
        {"targets": (1, 1)},
        {"targets": None},
        {"labels": ("yes", "no")},
        {"labels": (), "targets": (0.0, 1.0)},
        {"rule": "stratified"},
    ],
)
def test_every_field_is_in_the_fingerprint(change: dict) -> None:
    assert replace(PAIRS, **change).fingerprint != PAIRS.fingerprint


def test_order_of_the_rows_is_in_the_fingerprint() -> None:
    assert PAIRS.take([1, 0]).fingerprint != PAIRS.fingerprint


def test_white_space_around_text_is_not_data() -> None:
    """SST-2 sentences end in a blank on the hub and not in every folder."""
    spaced = replace(PAIRS, first=("a b ", "\tc"), second=(" d", "e f\n"))
    assert spaced == PAIRS
    assert spaced.fingerprint == PAIRS.fingerprint


def test_numbers_are_float32() -> None:
    """STS-B's 3.8 is 3.799999952316284 on the hub, "3.800" in a folder."""
    folder = Records("train", ("a",), ("b",), (float("3.800"),), ())
    hub = Records("train", ("a",), ("b",), (3.799999952316284,), ())
    assert folder.targets == (3.799999952316284,)
    assert folder.fingerprint == hub.fingerprint
    assert str(as_single(-0.0)) == "0.0"
    assert (
        Records("t", ("a",), None, (5,), ()).fingerprint == Records("t", ("a",), None, (5.0,), ()).fingerprint
    )


@pytest.mark.parametrize("value", [1e39, float("nan"), float("inf")])
def test_numbers_that_float32_cannot_hold_are_refused(value: float) -> None:
    with pytest.raises(DataError, match="float32"):
        Records("train", ("a",), None, (value,), ())


def test_wrong_records_are_refused() -> None:
    with pytest.raises(DataError, match="1 second for 2 texts"):
        Records("train", ("a", "b"), ("c",), None, ())
    with pytest.raises(DataError, match="3 targets for 2 texts"):
        Records("train", ("a", "b"), None, (0, 1, 0), ("x", "y"))
    for target in (2, -1, True, 0.0):
        with pytest.raises(DataError, match="not one of the 2 classes"):
            Records("train", ("a",), None, (target,), ("x", "y"))


def test_subset_is_seeded_ordered_and_without_replacement() -> None:
    records = Records(
        "train", tuple(str(n) for n in range(100)), None, tuple(n % 2 for n in range(100)), ("a", "b")
    )
    subset = records.subset(30, seed=3)
    numbers = [int(text) for text in subset.first]
    assert len(set(numbers)) == 30
    assert numbers == sorted(numbers)
    assert subset == records.subset(30, seed=3)
    assert subset != records.subset(30, seed=4)
    assert subset.fingerprint != records.fingerprint
    assert all(target == number % 2 for number, target in zip(numbers, subset.targets or (), strict=True))
    assert records.subset(100, seed=0) == records
    for n in (0, 101):
        with pytest.raises(DataError, match="cannot take"):
            records.subset(n, seed=0)


def test_smaller_subsets_lie_inside_larger_ones() -> None:
    records = Records("train", tuple(str(n) for n in range(50)), None, None, ("a", "b"))
    assert set(records.subset(10, 0).first) < set(records.subset(20, 0).first)


def test_seeded_order_is_pinned() -> None:
    """Fixed splits are part of published fingerprints: no library's generator may change them."""
    assert seeded_order(8, 0, "split") == [5, 7, 3, 4, 2, 1, 6, 0]
    assert sorted(seeded_order(100, 5, "x")) == list(range(100))


@given(
    st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=5),
    st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=5),
)
def test_fingerprints_are_equal_only_for_equal_records(left: list, right: list) -> None:
    """No two different rows run together in what is hashed."""

    def records(rows: list) -> Records:
        return Records("t", tuple(row[0] for row in rows), tuple(row[1] for row in rows), None, ("x", "y"))

    assert (records(left).fingerprint == records(right).fingerprint) == (records(left) == records(right))
