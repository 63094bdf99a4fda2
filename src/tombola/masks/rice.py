"""Rice codes for the rows of a mask: near the entropy of each row's own density, in whole-array operations.

In a row of density p the distances between its minority entries are geometric. A Rice code with parameter k
writes a distance d as d >> k in unary and its k low bits plainly, and comes within two per cent of the
entropy if k suits p (Rice and Plaunt 1971). So every row has a class, its k and its minority value; the
rows of one class are coded as one long line. A class costs a bit or two a row; the row's exact count would
cost more than it saves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: No mask is longer than 2^31 entries: nothing below can overflow 64 bits.
LARGEST_PARAMETER = 31
LARGEST_DISTANCE = 2**31


@dataclass(frozen=True)
class RiceCodes:
    """A coded mask: a class byte for every row, how many codes each class has, then the codes."""

    classes: bytes
    codes_per_class: tuple[int, ...]
    unary: bytes
    low: bytes


def encode_rows(rows: np.ndarray) -> RiceCodes:
    """The codes of a two-dimensional boolean array."""
    classes = _classes(np.count_nonzero(rows, axis=1).astype(np.int64), rows.shape[1])
    distances = []
    for row_class in np.unique(classes):
        line = rows[classes == row_class].reshape(-1) ^ bool(row_class & 1)
        distances.append(np.diff(np.flatnonzero(line), prepend=-1) - 1)
    codes_per_class = [len(part) for part in distances]
    distance = np.concatenate(distances)
    low_bits = np.repeat(np.unique(classes) >> 1, codes_per_class)
    unary = np.packbits(_mark_ends(distance >> low_bits)).tobytes()
    low = _pack_low(distance, low_bits)
    return RiceCodes(classes.astype(np.uint8).tobytes(), tuple(codes_per_class), unary, low)


def decode_rows(codes: RiceCodes, width: int) -> np.ndarray:
    """The array that ``encode_rows`` was given; a ValueError says what does not fit."""
    classes = np.frombuffer(codes.classes, np.uint8).astype(np.int64)
    present = np.unique(classes)
    if len(present) != len(codes.codes_per_class) or int(present.max()) >> 1 > LARGEST_PARAMETER:
        raise ValueError("the classes of its rows make no sense")
    total, entries = sum(codes.codes_per_class), len(classes) * width
    # Before any memory is taken: every code is a different entry, and all distances fit into the rows.
    if (
        min(codes.codes_per_class, default=0) < 0
        or total > entries
        or len(codes.unary) > (entries + total) // 8 + 1
    ):
        raise ValueError("there are more codes than entries")
    ends = np.flatnonzero(np.unpackbits(np.frombuffer(codes.unary, np.uint8)))
    if len(ends) != total or len(codes.unary) != (int(ends[-1]) // 8 + 1 if total else 0):
        raise ValueError("the unary part does not fit the number of codes")
    low_bits = np.repeat(present >> 1, codes.codes_per_class)
    distance = np.minimum(np.diff(ends, prepend=-1) - 1, LARGEST_DISTANCE) << low_bits
    distance += _unpack_low(codes.low, low_bits)
    if int(distance.max(initial=0)) >= LARGEST_DISTANCE:
        raise ValueError("an entry lies beyond the end of its rows")
    rows = np.empty((len(classes), width), dtype=bool)
    start = 0
    for row_class, count in zip(present, codes.codes_per_class, strict=True):
        members = np.flatnonzero(classes == row_class)
        position = np.cumsum(distance[start : start + count] + 1) - 1
        if count and int(position[-1]) >= len(members) * width:
            raise ValueError("an entry lies beyond the end of its rows")
        line = np.zeros(len(members) * width, dtype=bool)
        line[position] = True
        rows[members] = line.reshape(-1, width) ^ bool(row_class & 1)
        start += count
    return rows


def _classes(counts: np.ndarray, width: int) -> np.ndarray:
    """2k + flipped for every row: k is the smallest with 2^k ≥ −ln(φ − 1)·(mean distance + ½).

    φ is the golden ratio. In whole numbers, so that every machine chooses the same k.
    """
    flipped = counts * 2 > width
    minority = np.where(flipped, width - counts, counts)
    mean_above, mean_below = 2 * (width - minority) + minority, 2 * np.maximum(minority, 1)
    parameters = np.zeros(len(counts), dtype=np.int64)
    for k in range(min(int(width).bit_length(), LARGEST_PARAMETER)):
        parameters += ((mean_below * 10_000) << k) < mean_above * 4_812
    return 2 * parameters + flipped


def _mark_ends(quotients: np.ndarray) -> np.ndarray:
    """Every quotient as that many zeros and a one."""
    ends = np.cumsum(quotients + 1)
    marked = np.zeros(int(ends[-1]) if len(ends) else 0, dtype=bool)
    marked[ends - 1] = True
    return marked


def _pack_low(distance: np.ndarray, low_bits: np.ndarray) -> bytes:
    starts = np.cumsum(low_bits) - low_bits
    plain = np.zeros(int(low_bits.sum()), dtype=bool)
    for bit in range(int(low_bits.max(initial=0))):
        has = low_bits > bit
        plain[starts[has] + bit] = (distance[has] >> bit) & 1
    return np.packbits(plain).tobytes()


def _unpack_low(low: bytes, low_bits: np.ndarray) -> np.ndarray:
    size = int(low_bits.sum())
    if len(low) != (size + 7) // 8:
        raise ValueError(f"the low bits take {len(low)} bytes, {(size + 7) // 8} are due")
    plain = np.unpackbits(np.frombuffer(low, np.uint8))
    if plain[size:].any():
        raise ValueError("low bits are set after the end")
    starts = np.cumsum(low_bits) - low_bits
    value = np.zeros(len(low_bits), dtype=np.int64)
    for bit in range(int(low_bits.max(initial=0))):
        has = low_bits > bit
        value[has] |= plain[starts[has] + bit].astype(np.int64) << bit
    return value
