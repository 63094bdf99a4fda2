"""Seeded splits: labelled records into train and dev, for data that come without one; a share of dev to choose by."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tombola.errors import DataError
from tombola.tasks.records import Records, seeded_order


def selection_share(n_examples: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    """The positions to choose by, and the others to report on, both ascending: a random ``share`` of n examples.

    Early stopping and the choice of a level see the first only, so that figures on the second are unbiased
    (SPEC 3.3, 3.4; 5, trap 16). Rounded to the nearest; both have at least one example.
    """
    if n_examples < 2 or not 0 < share < 1:
        raise DataError(
            f"a share of {share} of {n_examples} examples cannot be set apart from others",
            where="development set",
            todo="give a share between 0 and 1 and at least two examples",
        )
    size = min(max(int(share * n_examples + 0.5), 1), n_examples - 1)
    order = seeded_order(n_examples, seed, "selection")
    return sorted(order[:size]), sorted(order[size:])


def stratified_split(
    records: Records, dev_size: int, *, seed: int, rule: str, where: str = ""
) -> tuple[Records, Records]:
    """``dev_size`` records for dev with the classes' shares (numbers: spread over their range), the rest for
    train.

    Both keep the original order. Every class keeps at least one example in train.
    """
    if records.targets is None:
        raise DataError("records without targets cannot be split by them", where=where or records.split)
    if not 0 < dev_size < len(records):
        raise DataError(
            f"cannot take {dev_size} of {len(records)} examples for dev", where=where or records.split
        )
    order = seeded_order(len(records), seed, "split")
    if records.labels:
        chosen = _by_class(records, order, dev_size, where or records.split)
    else:
        chosen = _by_value(records, order, dev_size)
    train = records.take([row for row in range(len(records)) if row not in chosen])
    dev = records.take(sorted(chosen))
    return replace(train, split="train", rule=rule), replace(dev, split="dev", rule=rule)


def _by_class(records: Records, order: list[int], dev_size: int, where: str) -> set[int]:
    """Each class gives its share of dev, rounded by largest remainder so that the total is exact."""
    targets = records.targets or ()
    rows: dict[int | float, list[int]] = {}
    for row in order:
        rows.setdefault(targets[row], []).append(row)
    quota = {target: len(members) * dev_size for target, members in rows.items()}
    count = {target: quota[target] // len(records) for target in rows}  # less than all, since dev is
    by_remainder = sorted(rows, key=lambda target: (-(quota[target] % len(records)), target))
    while (missing := dev_size - sum(count.values())) > 0:
        room = [target for target in by_remainder if count[target] < len(rows[target]) - 1][:missing]
        if not room:
            raise DataError(
                f"{len(records)} examples of {len(rows)} classes are too few for {dev_size} in dev and one "
                "of each class in train",
                where=where,
                todo="add rows, or give --eval-data",
            )
        for target in room:
            count[target] += 1
    return {row for target, members in rows.items() for row in members[: count[target]]}


def _by_value(records: Records, order: list[int], dev_size: int) -> set[int]:
    """Sorted by value and cut into ``dev_size`` runs, each run gives one."""
    targets = records.targets or ()
    rank = {row: position for position, row in enumerate(order)}
    ordered = sorted(range(len(records)), key=lambda row: (targets[row], rank[row]))
    edges = [position * len(ordered) // dev_size for position in range(dev_size + 1)]
    return {min(ordered[start:end], key=lambda row: rank[row]) for start, end in pairwise(edges)}
