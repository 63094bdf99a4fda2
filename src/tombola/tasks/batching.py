"""Which examples go together, in which order, and how they become tensors.

``epoch_batches`` is a pure function of its arguments: a resumed run asks again and gets the same batches.
Each epoch has a composition of its own (trap 9). Buckets put sentences of like length together inside a
shuffled window, which saves most of the padding and keeps the order random on the scale of a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from tombola import streams
from tombola.errors import DataError, RecipeError
from tombola.tasks.encoding import Encoded, encode

__all__ = ["Encoded", "collate", "encode", "epoch_batches", "evaluation_batches", "padding_share"]

Order = Literal["buckets", "random"]
#: Rows of a multiple of 8 tokens suit tensor cores.
MULTIPLE = 8


def epoch_batches(
    lengths: np.ndarray | Sequence[int],
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    order: Order = "buckets",
    window: int = 50,
) -> list[np.ndarray]:
    """The batches (arrays of positions) of one epoch: every example exactly once, the short last batch kept.

    ``random`` shuffles and cuts. ``buckets`` shuffles, cuts into windows of ``window`` batches, sorts each
    window by length, cuts it into batches and shuffles all batches. A set that fits into one window is cut
    into quarters instead.
    """
    _check_positive("batch_size", batch_size)
    _check_positive("window", window)
    if order not in ("buckets", "random"):
        raise RecipeError(f"there is no order '{order}'", where="order", todo="'buckets' or 'random'")
    lengths = np.asarray(lengths)
    if len(lengths) == 0:
        return []
    stream = streams.generator(seed, "epoch", epoch)
    shuffled = torch.randperm(len(lengths), generator=stream).numpy()
    if order == "random":
        return _cut(shuffled, batch_size)
    if len(lengths) <= window * batch_size:
        # One window would sort the whole set by length: nearly the same batches in every epoch (SPEC 5, trap 9).
        window = max(1, len(lengths) // (4 * batch_size))
    batches = [
        batch
        for part in _cut(shuffled, window * batch_size)
        for batch in _cut(part[np.argsort(lengths[part], kind="stable")], batch_size)
    ]
    return [batches[position] for position in torch.randperm(len(batches), generator=stream).tolist()]


def evaluation_batches(lengths: np.ndarray | Sequence[int], batch_size: int) -> list[np.ndarray]:
    """Every example once, longest first: the least padding, and a lack of memory shows at once."""
    _check_positive("batch_size", batch_size)
    return _cut(np.argsort(-np.asarray(lengths, np.int64), kind="stable"), batch_size)


def collate(
    encoded: Encoded,
    indices: np.ndarray | Sequence[int],
    pad_to: int | None = None,
    multiple: int = MULTIPLE,
) -> dict[str, torch.Tensor]:
    """The model's inputs for these examples, padded on the right to the longest of them, or to ``pad_to``.

    Padding on the right whatever the tokenizer prefers: positions then start at 0 in every family. The width
    is rounded up to ``multiple``, never past ``max_length``. int64 ids; ``labels`` int64 (classes) or float32
    (numbers).
    """
    rows = np.asarray(indices, np.int64)
    if len(rows) == 0:
        raise DataError("a batch needs at least one example", where="indices")
    starts, lengths = encoded.offsets[rows], encoded.lengths[rows]
    width = _width(int(lengths.max()), encoded.max_length, pad_to, multiple)
    columns = np.arange(width)
    attended = columns < lengths[:, None]
    # Padding reads some token inside the array and is then overwritten.
    positions = np.minimum(starts[:, None] + columns, max(len(encoded.ids) - 1, 0))
    batch = {
        "input_ids": np.where(attended, encoded.ids[positions], encoded.pad_id).astype(np.int64),
        "attention_mask": attended.astype(np.int64),
    }
    if encoded.type_ids is not None:
        types = np.where(attended, encoded.type_ids[positions], encoded.pad_type_id)
        batch["token_type_ids"] = types.astype(np.int64)
    if encoded.targets is not None:
        batch["labels"] = encoded.targets[rows]
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in batch.items()}


def padding_share(lengths: np.ndarray, batches: Sequence[np.ndarray], multiple: int = MULTIPLE) -> float:
    """The share of all positions in these batches that is padding."""
    lengths = np.asarray(lengths)
    if not batches:
        return 0.0
    positions = sum(len(batch) * -(-int(lengths[batch].max()) // multiple) * multiple for batch in batches)
    return 1.0 - sum(int(lengths[batch].sum()) for batch in batches) / positions


def _width(longest: int, max_length: int, pad_to: int | None, multiple: int) -> int:
    _check_positive("multiple", multiple)
    if pad_to is None:
        return max(longest, min(-(-longest // multiple) * multiple, max_length))
    if pad_to < longest:
        raise DataError(
            f"an example of {longest} tokens does not fit into {pad_to}",
            where="pad_to",
            todo=f"give at least {longest}, or encode with max_length={pad_to}",
        )
    return pad_to


def _cut(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise RecipeError(f"{value} is not a size", where=name, todo="give 1 or more")
