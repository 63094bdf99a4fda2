"""Records: the examples of one split in their canonical form, and their fingerprint.

Canonical means: text without white space around it (SST-2 has some on the hub, not in every folder), numbers
rounded to float32 (STS-B is float32 on the hub, decimal text in a folder; the loss is float32 anyhow),
classes as positions in ``labels``. What is fingerprinted is exactly what is tokenised, so equal data have
equal fingerprints wherever they were read from.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from tombola.canonical import canonical_json
from tombola.errors import DataError

FORMAT = "tombola-records-1"
_ROW = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def as_single(value: float) -> float:
    """``value`` rounded to float32, as a Python float; minus zero becomes zero."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        rounded = math.inf
    if not math.isfinite(rounded):
        raise DataError(f"{value} is not a finite float32 number", todo="correct or remove that target")
    return rounded + 0.0


@dataclass(frozen=True)
class Records:
    """One split: texts (``second`` for pairs) and targets, or None where the benchmark keeps them secret.

    ``labels`` names the classes that integer targets point to; it is empty for a regression. ``rule`` says
    how the split came about ("official", or the seed and share of a split of ours).
    """

    split: str
    first: tuple[str, ...]
    second: tuple[str, ...] | None
    targets: tuple[int, ...] | tuple[float, ...] | None
    labels: tuple[str, ...]
    rule: str = "official"

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "first", tuple(text.strip() for text in self.first))
        put(self, "labels", tuple(self.labels))
        if self.second is not None:
            put(self, "second", tuple(text.strip() for text in self.second))
            self._check_length("second", len(self.second))
        if self.targets is None:
            return
        self._check_length("targets", len(self.targets))
        if self.labels:
            classes = range(len(self.labels))
            for row, target in enumerate(self.targets):
                if isinstance(target, bool) or not isinstance(target, int) or target not in classes:
                    raise DataError(
                        f"target {target!r} is not one of the {len(self.labels)} classes",
                        where=f"{self.split}[{row}]",
                    )
        else:
            put(self, "targets", tuple(as_single(target) for target in self.targets))

    def _check_length(self, name: str, length: int) -> None:
        if length != len(self.first):
            raise DataError(f"{length} {name} for {len(self.first)} texts", where=f"split {self.split}")

    def __len__(self) -> int:
        return len(self.first)

    @property
    def kind(self) -> str:
        return "classification" if self.labels else "regression"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the canonical records in order: a header line (fields, label map, rule), then one a
        row.
        """
        header = {
            "format": FORMAT,
            "split": self.split,
            "pairs": self.second is not None,
            "kind": self.kind,
            "labels": list(self.labels),
            "targets": self.targets is not None,
            "rule": self.rule,
            "size": len(self),
        }
        hashed = hashlib.sha256(canonical_json(header).encode() + b"\n")
        columns = [column for column in (self.first, self.second, self.targets) if column is not None]
        for row in zip(*columns, strict=True):
            hashed.update(_ROW.encode(row).encode() + b"\n")
        return hashed.hexdigest()

    def take(self, rows: list[int]) -> Records:
        """The records at these positions, in the order given."""
        return replace(
            self,
            first=tuple(self.first[row] for row in rows),
            second=None if self.second is None else tuple(self.second[row] for row in rows),
            targets=None if self.targets is None else tuple(self.targets[row] for row in rows),  # pyright: ignore[reportArgumentType]
        )

    def subset(self, n: int, seed: int) -> Records:
        """``n`` records drawn without replacement, the same for the same seed everywhere, in their original
        order.
        """
        if not 0 < n <= len(self):
            raise DataError(f"cannot take {n} of {len(self)} examples", where=f"split {self.split}")
        return self.take(sorted(seeded_order(len(self), seed, "subset")[:n]))

    def class_counts(self) -> dict[str, int]:
        """How many examples each class has."""
        counts = Counter(self.targets or ())
        return {label: counts[position] for position, label in enumerate(self.labels)}


def seeded_order(size: int, seed: int, *names: str) -> list[int]:
    """A random order of ``range(size)`` that no version of any library can change: sorted by a hash of each
    row.

    Splits and subsets are part of data fingerprints, so they must outlive torch's and Python's generators.
    """
    from tombola.streams import derive

    return sorted(range(size), key=lambda row: derive(seed, *names, row))
