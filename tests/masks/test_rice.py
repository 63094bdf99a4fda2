"""Rice codes of mask rows: what is decoded is what was encoded, and damage never gets through as an array."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tombola.masks.rice import RiceCodes, decode_rows, encode_rows


def rows_of(*rows: str) -> np.ndarray:
    return np.array([[letter == "1" for letter in row] for row in rows])


def test_a_sparse_row_written_out() -> None:
    """Two of sixteen: distances 2 and 8; k = 2, 2 -> '1', low 01 (LSB first); 8 -> '001', low 00."""
    codes = encode_rows(rows_of("0010000000010000"))
    assert codes.classes == bytes([2 * 2])
    assert codes.codes_per_class == (2,)
    assert codes.unary == bytes([0b1001_0000])
    assert codes.low == bytes([0b0100_0000])


def test_a_dense_row_is_written_by_its_zeros() -> None:
    sparse, dense = encode_rows(rows_of("0010000000010000")), encode_rows(rows_of("1101111111101111"))
    assert dense == dataclasses.replace(sparse, classes=bytes([2 * 2 + 1]))


@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 70000), (5, 8)])
def test_empty_and_full_rows_cost_no_codes(fill: bool, shape: tuple[int, int]) -> None:
    rows = np.full(shape, fill)
    codes = encode_rows(rows)
    assert (codes.codes_per_class, codes.unary, codes.low) == ((0,), b"", b"")
    assert np.array_equal(decode_rows(codes, shape[1]), rows)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_round_trip(height: int, width: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows = draw.random((height, width)) < draw.random((height, 1)) ** draw.choice([0.1, 1, 8])
    decoded = decode_rows(encode_rows(rows), width)
    assert decoded.dtype == bool
    assert np.array_equal(decoded, rows)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(min_size=1, max_size=6),
    st.lists(st.integers(0, 40), min_size=1, max_size=6),
    st.binary(max_size=12),
    st.binary(max_size=12),
    st.integers(1, 40),
)
def test_nonsense_is_a_value_error(
    classes: bytes, per_class: list[int], unary: bytes, low: bytes, width: int
) -> None:
    codes = RiceCodes(classes, tuple(per_class), unary, low)
    try:
        rows = decode_rows(codes, width)
    except ValueError:
        return
    assert rows.shape == (len(classes), width)


def test_distances_that_would_overflow() -> None:
    """2^33 zeros in unary cannot be had, but 31 low bits of ones and many codes can."""
    codes = RiceCodes(bytes([62]), (8,), b"\xff", b"\xff" * 31)
    with pytest.raises(ValueError, match="beyond the end"):
        decode_rows(codes, 64)
