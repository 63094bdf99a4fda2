"""Importance of all gates, per example, against a plain forward and backward pass of the parameters.

``python -m benchmarks.importance`` measures this alone and prints it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import report
from benchmarks.report import Row, Section, table
from benchmarks.setting import Setting, fresh_model
from benchmarks.timing import alternating, seconds_of, spread
from tombola.scores.importance import importance
from tombola.tasks.batching import collate, evaluation_batches
from tombola.tasks.encoding import Encoded
from tombola.training.loop import loss_sum
from tombola.training.numerics import applied, autocast, on_device, width_multiple

#: The most that the importance may take, as a share of forward and backward (DESIGN 7).
TARGET = 0.7
LENGTHS = (32, 128)
#: The name in the tables of a random model with the sizes of BERT-base.
BASE = "BERT-base's sizes"
BATCHES = 2

WORDS = """\
Both sides get the same {batches} batches of {batch} examples of exactly so many tokens, in one process, one after
the other, their order alternating; a ratio is of one such pair, the interval over the pairs (fewer than six: their
range). Both run in evaluation mode, collating included. Importance is the library's own call with nothing taken out,
granularity `example`. The plain side is the backward pass of the mean loss to all parameters, whose gradients are
dropped after every batch; it takes no optimizer step."""


def section(
    settings: Sequence[Setting],
    say: Callable[[str], None],
    pairs: int = 15,
    base_pairs: int = 3,
    lengths: Sequence[int] = LENGTHS,
) -> Section:
    """One row a model, precision (that of a setting) and length; no pairs leave a model out."""
    rows, lines = [], []
    for name, make, times in ((settings[0].model, fresh_model, pairs), (BASE, base_model, base_pairs)):
        model: Any = make(settings[0]) if times else None
        for setting in settings if times else ():
            for length in lengths:
                say(f"importance, {name}, {setting.precision}, {length} tokens")
                taken = measure(model, setting, length, times)
                ratios = [ours / plain for ours, plain in taken]
                ours, plain = (spread([1e3 * pair[i] / BATCHES for pair in taken], "{:.0f}") for i in (0, 1))
                lines.append((name, setting.precision, length, ours, plain, spread(ratios), times))
                what = f"importance of all gates, {name}, {setting.precision}, {length} tokens: × plain"
                rows.append(Row(what, spread(ratios), float(np.median(ratios)), TARGET, at_most=True))
    head = ("model", "precision", "tokens", "importance, ms a batch", "plain, ms a batch", "ratio", "pairs")
    words = WORDS.format(batches=BATCHES, batch=settings[0].batch_size)
    return Section("Importance of heads and FFNs", f"{table(head, lines)}\n\n{words}", rows)


def measure(model: Any, setting: Setting, length: int, pairs: int) -> list[tuple[float, float]]:
    """Seconds of (importance, forward and backward), pair by pair, after one of each that does not count."""
    model.to(setting.device).eval()
    data = examples(BATCHES * setting.batch_size, length, model.config.vocab_size)
    ways: dict[str, Callable[[], object]] = {
        "importance": lambda: importance(model, data, setting.numerics, batch_size=setting.batch_size),
        "plain": lambda: forward_and_backward(model, data, setting),
    }
    for work in ways.values():
        work()
    taken = []
    for turn in range(pairs):
        seconds = {way: seconds_of(ways[way], setting.device) for way in alternating(tuple(ways), turn)}
        taken.append((seconds["importance"], seconds["plain"]))
    return taken


def forward_and_backward(model: Any, data: Encoded, setting: Setting) -> None:
    """What a training step does before its optimizer, by the training's own functions, without dropout."""
    with applied(setting.numerics) as device:
        for indices in evaluation_batches(data.lengths, setting.batch_size):
            batch = on_device(collate(data, indices, multiple=width_multiple(device)), device)
            labels = batch.pop("labels")
            with autocast(setting.numerics):
                logits = model(**batch).logits
            (loss_sum(logits, labels) / len(indices)).backward()
            model.zero_grad(set_to_none=True)


def examples(count: int, length: int, words: int) -> Encoded:
    """Random tokens, all examples of one length."""
    draw = np.random.default_rng(0)
    return Encoded(
        ids=draw.integers(0, words, count * length).astype(np.int32),
        offsets=np.arange(count + 1) * length,
        type_ids=np.zeros(count * length, np.uint8),
        targets=draw.integers(0, 2, count),
        max_length=length,
        truncated=0,
        pad_id=0,
    )


def base_model(setting: Setting) -> Any:
    """BERT-base's sizes with random weights: what it costs does not depend on them."""
    from transformers import BertConfig, BertForSequenceClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BertForSequenceClassification(BertConfig())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.importance", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--base-pairs", type=int, default=3, help=f"pairs of a model of {BASE}")
    parser.add_argument("--out", type=Path, help="write a page instead of printing")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    began, load = datetime.now(UTC), os.getloadavg()[0]

    def say(what: str) -> None:
        print(f"{(datetime.now(UTC) - began).total_seconds():6.0f} s  {what}", file=sys.stderr, flush=True)

    setting = Setting(model=chosen.model, device=chosen.device, threads=chosen.threads)
    settings = [setting.with_(precision=precision) for precision in ("fp32", "bf16")]
    found = section(settings, say, chosen.pairs, chosen.base_pairs)
    header = report.header(
        chosen.device,
        chosen.threads,
        began,
        (load, os.getloadavg()[0]),
        "made-up tokens",
        command="python -m benchmarks.importance",
    )
    if chosen.out is None:
        print(f"{header}\n\n## {found.title}\n\n{found.body}")
    else:
        report.write(chosen.out, header, [found])


if __name__ == "__main__":
    main()
