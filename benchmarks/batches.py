"""The batches that are measured: a fair sample of an epoch's, by their width.

An epoch of each task is cut into batches by the order in question; of these a stratified sample is taken:
sorted by width, one from the middle of every ``strata`` × ``passes`` equal parts. Each pass holds one batch of
every stratum, so its mean time is that of the epoch but for little.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.setting import Setting
from tombola.models.build import load_tokenizer
from tombola.models.resolve import resolve
from tombola.tasks.batching import epoch_batches
from tombola.tasks.encoding import Encoded, encode
from tombola.tasks.task import DataOptions, load_task

Grouping = Literal["buckets", "random", "trainer"]
#: Two windows of 50 batches of 32: what an epoch's buckets look like does not depend on there being more.
EXAMPLES = 3200
#: Steps before the clock counts: the optimizer's memory is made, the allocator has seen the widest batch.
WARM_UP = 2
#: Mean and standard deviation of the log of the token lengths, where the data are not at hand.
LOG_LENGTHS = {"cola": (2.37, 0.33), "sst-2": (2.42, 0.57), "mrpc": (3.94, 0.26), "rte": (4.05, 0.53)}


@dataclass(frozen=True)
class Sample:
    """The examples of the sampled batches, one batch after the other; the first ``WARM_UP`` are not timed."""

    data: Encoded
    batch_size: int
    #: mean width of the epoch's batches that the timed ones stand for, a task
    epoch_width: dict[str, float]

    @property
    def steps(self) -> int:
        return len(self.data) // self.batch_size

    def rows(self, step: int) -> np.ndarray:
        return np.arange(step * self.batch_size, (step + 1) * self.batch_size)

    def width(self, step: int) -> int:
        """Tokens of the batch's longest example."""
        return int(self.data.lengths[self.rows(step)].max())


def sample(setting: Setting, grouping: Grouping, per_pass: int) -> Sample:
    """The batches of one way of training: for every pass, every task, ``per_pass`` batches (in that order)."""
    examples = {task: _examples(setting, task) for task in setting.tasks}
    chosen: dict[str, list[np.ndarray]] = {}
    epoch_width: dict[str, float] = {}
    for task, encoded in examples.items():
        batches = _epoch(encoded.lengths, setting.batch_size, grouping)
        widths = np.array([encoded.lengths[batch].max() for batch in batches])
        epoch_width[task] = float(widths.mean())
        chosen[task] = [batches[i] for i in _strata(widths, setting.passes, per_pass)]
    timed = [
        (task, batch)
        for one in range(setting.passes)
        for task in setting.tasks
        for batch in chosen[task][one * per_pass : (one + 1) * per_pass]
    ]
    widest = max(timed, key=lambda pair: examples[pair[0]].lengths[pair[1]].max())
    return Sample(
        _joined(examples, [widest] * WARM_UP + timed, setting.max_length), setting.batch_size, epoch_width
    )


def _strata(widths: np.ndarray, passes: int, per_pass: int) -> list[int]:
    """Positions of the sampled batches, pass by pass, from narrow to wide."""
    by_width = np.argsort(widths, kind="stable")
    shares = [(s + (p + 0.5) / passes) / per_pass for p in range(passes) for s in range(per_pass)]
    return [int(by_width[int(share * len(widths))]) for share in shares]


def _epoch(lengths: np.ndarray, size: int, grouping: Grouping) -> list[np.ndarray]:
    """All full batches of one epoch."""
    if grouping != "trainer":
        batches = epoch_batches(lengths, size, seed=0, epoch=0, order=grouping)
    else:
        import torch
        from transformers.trainer_pt_utils import get_length_grouped_indices

        # Mega-batches of 50 batches, which the Trainer takes in any epoch of 200 batches or more.
        stream = torch.Generator().manual_seed(0)
        order = np.array(
            get_length_grouped_indices(lengths.tolist(), size, mega_batch_mult=50, generator=stream)
        )
        batches = [order[start : start + size] for start in range(0, len(order), size)]
    return [batch for batch in batches if len(batch) == size]


def _examples(setting: Setting, task: str) -> Encoded:
    tokenizer = load_tokenizer(resolve(setting.model))
    if setting.data_dir is not None:
        options = DataOptions(data_dir=Path(setting.data_dir), max_train=EXAMPLES)
        return encode(load_task(task, options).train, tokenizer, setting.max_length)
    draw = np.random.default_rng(0)
    lengths = np.exp(draw.normal(*LOG_LENGTHS[task], EXAMPLES)).round().astype(np.int64)
    lengths = lengths.clip(4, setting.max_length)
    size = int(lengths.sum())
    return Encoded(
        ids=draw.integers(0, len(tokenizer), size, np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        type_ids=np.zeros(size, np.uint8),
        targets=draw.integers(0, 2, EXAMPLES),
        max_length=setting.max_length,
        truncated=0,
        pad_id=int(tokenizer.pad_token_id),  # type: ignore[arg-type]
    )


def _joined(examples: dict[str, Encoded], batches: list[tuple[str, np.ndarray]], max_length: int) -> Encoded:
    """One ``Encoded`` of these batches' examples, in this order."""
    rows = [(examples[task], row) for task, batch in batches for row in batch]
    pieces = [slice(int(e.offsets[row]), int(e.offsets[row + 1])) for e, row in rows]
    first = rows[0][0]
    return Encoded(
        ids=np.concatenate([e.ids[piece] for (e, _), piece in zip(rows, pieces, strict=True)]),
        offsets=np.cumsum([0, *(piece.stop - piece.start for piece in pieces)]),
        type_ids=None
        if first.type_ids is None
        else np.concatenate([e.type_ids[p] for (e, _), p in zip(rows, pieces, strict=True)]),  # type: ignore[index]
        targets=np.array([e.targets[row] for e, row in rows]),  # type: ignore[index]
        max_length=max_length,
        truncated=0,
        pad_id=first.pad_id,
        pad_type_id=first.pad_type_id,
    )
