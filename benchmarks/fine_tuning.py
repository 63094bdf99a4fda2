"""Fine-tuning a ticket: our way against the papers' way and against transformers' Trainer.

All ways take their steps in turns, each in a process of its own, on batches sampled from an epoch of each task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from benchmarks.batches import WARM_UP, Sample, sample
from benchmarks.report import Row, Section, table
from benchmarks.setting import Setting
from benchmarks.timing import alternating, spread
from benchmarks.ways import WAYS, Way
from benchmarks.worker import Worker
from tombola.tasks.batching import collate

#: How many times faster than the papers' way (DESIGN 7).
TARGETS = {"cola": 4.0, "sst-2": 4.0, "mrpc": 2.0, "rte": 1.6}
ALONE = {
    "padding": "padding alone: to the longest of a random batch",
    "padding and buckets": "… and buckets: random order inside a window sorted by length",
    "optimizer": "optimizer alone: fused AdamW",
    "mask": "mask alone: gradients instead of a masked forward",
}

ROUNDING = """\
On a CPU, where a step is about linear in its width, ours pads to the longest of a batch exactly, as the Trainer does;
on a GPU to a multiple of 8. The last column is our loop with that rounding, in the same run. MRPC and RTE have fewer
than 200 batches an epoch, where the Trainer's own grouping is coarser than the mega-batches of 50 it is given here."""


@dataclass(frozen=True)
class Times:
    """Seconds of every step: ``seconds[way][task][pass]`` is a list."""

    setting: Setting
    seconds: dict[str, dict[str, list[list[float]]]]
    #: ways whose batches are all the same work
    padded: frozenset[str] = frozenset(name for name, way in WAYS.items() if way.padded)

    def mean(self, way: str, task: str, one: int) -> float:
        """Mean step of a pass. Padded steps are the same work in every task: all of the pass count."""
        if way in self.padded:
            return float(np.mean([self.seconds[way][other][one] for other in self.setting.tasks]))
        return float(np.mean(self.seconds[way][task][one]))

    def ratios(self, slow: str, fast: str, task: str) -> list[float]:
        """Pass by pass, how many times ``slow`` takes what ``fast`` takes for as many steps."""
        return [self.mean(slow, task, one) / self.mean(fast, task, one) for one in range(self.setting.passes)]

    def pairs(self, first: str, second: str, task: str) -> list[float]:
        """Step by step, where both ways had the same batch at the same turn."""
        steps = zip(self.seconds[first][task], self.seconds[second][task], strict=True)
        return [a / b for one, other in steps for a, b in zip(one, other, strict=True)]

    def all(self, way: str, task: str) -> list[float]:
        return [value for one in self.seconds[way][task] for value in one]


def measure(setting: Setting, known: Mapping[str, Way] = WAYS) -> Times:
    """Every way's steps in turns: pass by pass, task by task, batch by batch."""
    ways, padded = tuple(known), frozenset(name for name, way in known.items() if way.padded)
    seconds: dict[str, dict[str, list[list[float]]]] = {
        way: {task: [[] for _ in range(setting.passes)] for task in setting.tasks} for way in ways
    }
    with ExitStack() as stack:
        workers = {way: stack.enter_context(Worker(way, setting)) for way in ways}
        for worker in workers.values():
            for _ in range(WARM_UP):
                worker.step()
        turn = 0
        for one in range(setting.passes):
            for task in setting.tasks:
                for stratum in range(setting.strata):
                    for way in alternating(ways, turn):
                        if way not in padded or stratum == one % setting.strata:
                            seconds[way][task][one].append(workers[way].step())
                    turn += 1
    return Times(setting, seconds, padded)


def section(times: Times) -> Section:
    """Against the papers' way, with what each of its parts is worth alone."""
    setting = times.setting
    rows, against, alone = [], [], []
    buckets = sample(setting, "buckets", setting.strata)
    random = sample(setting, "random", setting.strata)
    for task in setting.tasks:
        ratios = times.ratios("papers", "ours", task)
        label = f"fine-tuning a ticket, {task}, {setting.precision}: times faster than the papers' way"
        rows.append(Row(label, spread(ratios), float(np.median(ratios)), TARGETS.get(task)))
        against.append(
            (
                task,
                f"{buckets.epoch_width[task]:.1f} / {random.epoch_width[task]:.1f}",
                f"{np.median(times.all('ours', task)) * 1e3:.0f}",
                f"{np.mean([times.mean('ours', task, p) for p in range(setting.passes)]) * 1e3:.0f}",
                f"{np.mean([times.mean('papers', task, p) for p in range(setting.passes)]) * 1e3:.0f}",
                spread(ratios),
            )
        )
    for way, words in ALONE.items():
        cells = [spread(times.ratios("papers", way, task)) for task in setting.tasks]
        if WAYS[way].padded:
            pairs = [ratio for task in setting.tasks for ratio in times.pairs("papers", way, task)]
            cells = [spread(pairs, "{:.3f}")] + ["same work"] * (len(cells) - 1)
        alone.append((words, *cells))
    widths = "longest of a batch, mean (buckets / random)"
    head = ("task", widths, "ours: median step, ms", "ours: mean, ms", "papers: mean, ms", "times faster")
    body = "\n\n".join(
        [
            table(head, against),
            "What each part is worth alone, as times faster than the papers' way:",
            table(("part", *setting.tasks), alone),
        ]
    )
    return Section(f"Fine-tuning a ticket against the papers' way, {setting.precision}", body, rows)


def trainer_section(times: Times) -> Section:
    """Against transformers' Trainer with our callback."""
    setting = times.setting
    rows, lines = [], []
    for task in setting.tasks:
        default, best = (times.ratios(f"Trainer, {kind}", "ours", task) for kind in ("default", "best"))
        label = f"{task}, {setting.precision}: times faster than the Trainer's best settings"
        rows.append(Row(label, spread(best), float(np.median(best)), 1.0))
        means = {
            way: np.mean([times.mean(way, task, one) for one in range(setting.passes)]) * 1e3
            for way in ("ours", "Trainer, default", "Trainer, best")
        }
        exact = times.ratios("Trainer, best", "ours, rounded to 8", task)
        cells = (spread(default), spread(best), spread(exact))
        lines.append((task, *(f"{value:.0f}" for value in means.values()), *cells))
    head = (
        "task",
        "ours, ms",
        "Trainer default, ms",
        "Trainer best, ms",
        "ours against default",
        "ours against best",
        "the same, our width rounded up to 8",
    )
    body = f"{table(head, lines)}\n\n{ROUNDING}"
    return Section(f"Against transformers' Trainer, {setting.precision}", body, rows)


def widths(setting: Setting) -> dict[str, list[int]]:
    """Columns of every timed batch of our way, in the order of ``Times.all``."""
    batches = sample(setting, "buckets", setting.strata)
    found: dict[str, list[int]] = defaultdict(list)
    step = WARM_UP
    for _ in range(setting.passes):
        for task in setting.tasks:
            for _ in range(setting.strata):
                found[task].append(_columns(batches, step))
                step += 1
    return dict(found)


def _columns(batches: Sample, step: int) -> int:
    return int(collate(batches.data, batches.rows(step))["input_ids"].shape[1])
