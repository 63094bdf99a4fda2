"""A whole super-ticket search: the full model, its importance, and eight levels.

Whole trainings take hours on a small machine. Here every piece takes steps on a sample of an epoch's batches, in turns
with the full model's, and what a search takes is put together from the mean steps.

``python -m benchmarks.super_tickets --only search`` measures this alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.fine_tuning import Times, measure
from benchmarks.gemm_roof import step_flops
from benchmarks.report import Row, Section, table
from benchmarks.search_ways import (
    DENSE,
    IMPORTANCE,
    PAPERS,
    PAPERS_GATED,
    SEARCH_WAYS,
    level_name,
    structure_at,
)
from benchmarks.setting import Setting, fresh_model
from benchmarks.timing import spread
from tombola.masks.levels import LEVELS
from tombola.models.resolve import resolve
from tombola.models.surgery import shrink
from tombola.plan.defaults import super_recipe

#: What a search may take of nine trainings of the full model, our way (DESIGN 7).
OWN_TARGET = 0.65
#: How many times faster than the papers' way it must be.
PAPERS_TARGETS = {"cola": 6.0, "rte": 2.5}
TRAININGS = 1 + len(LEVELS)

WORDS = """\
No search was run to its end: the figures are put together from steps, as many of each as the recipe has. The recipe
is the super-ticket paper's, {epochs} epochs of batches of {batch} with Adamax; that it may stop earlier is left out on
all sides. A search is {trainings} trainings (the full model, and the smaller one of each of {levels} levels) and one
pass of importance over the training set. Its time, in epochs of the full model, is
{epochs}·(1 + Σ step at a level / step of the full model) + importance of a batch / step of the full model;
nine dense trainings are {epochs}·{trainings}. Scoring on the development set after an epoch is left out on all sides
(it would be less on the smaller models). Structures are drawn at random in the size of each level.

A step is from one step's end to the next, input pipeline included, in a process of its own; the processes take
turns, their order alternating, on a stratified sample (by width) of an epoch's batches: {passes} passes of {strata}
batches a task. Ratios are of a pass's mean steps, median (lowest–highest) of the passes; six passes or more: the 95 %
bootstrap interval. The importance is called once a batch, with all that a call sets up; a search calls it once.

The papers' way pads to {length} in random order, takes torch's Adamax with `foreach=False`, and trains every ticket
as the full model with its gates closed (the library's `gated`, level 50%: the work does not depend on it). Its pass
for the importance is left out, which favours it. One fine-tuning the papers' way is {epochs} epochs of the full model
without gates."""


@dataclass(frozen=True)
class Search:
    """Ratios to the full model's step, pass by pass, of one model and precision."""

    setting: Setting
    model: str
    groups: tuple[Times, ...]

    def ratio(self, way: str, task: str, one: int) -> float:
        """The mean step of a way ÷ that of the full model at the same turns."""
        times = next(times for times in self.groups if way in times.seconds)
        return times.mean(way, task, one) / times.mean(DENSE, task, one)

    def seconds(self, way: str, task: str) -> float:
        times = next(times for times in self.groups if way in times.seconds)
        return float(np.mean([times.mean(way, task, one) for one in range(self.setting.passes)]))

    def whole(self, task: str, one: int) -> float:
        """The search, in epochs of the full model."""
        levels = sum(self.ratio(level_name(level), task, one) for level in LEVELS)
        return epochs() * (1 + levels) + self.ratio(IMPORTANCE, task, one)

    def of_own(self, task: str) -> list[float]:
        """The search ÷ nine trainings of the full model."""
        return [self.whole(task, one) / (epochs() * TRAININGS) for one in self._passes]

    def papers(self, task: str) -> list[float]:
        """The search the papers' way ÷ the search."""
        return [
            epochs()
            * (self.ratio(PAPERS, task, one) + len(LEVELS) * self.ratio(PAPERS_GATED, task, one))
            / self.whole(task, one)
            for one in self._passes
        ]

    def of_one(self, task: str) -> list[float]:
        """The search ÷ one fine-tuning the papers' way."""
        return [self.whole(task, one) / (epochs() * self.ratio(PAPERS, task, one)) for one in self._passes]

    @property
    def _passes(self) -> range:
        return range(self.setting.passes)


def epochs() -> int:
    return super_recipe(None).epochs


def search(setting: Setting, name: str, at_once: int) -> Search:
    """Measure all pieces, ``at_once`` processes beside the full model's at most."""
    others = [way for way in SEARCH_WAYS if way != DENSE]
    groups = [others[start : start + at_once] for start in range(0, len(others), at_once)]
    measured = [measure(setting, {way: SEARCH_WAYS[way] for way in (DENSE, *group)}) for group in groups]
    return Search(setting, name, tuple(measured))


def section(searches: Sequence[Search]) -> Section:
    """Rows for every model, precision and task."""
    rows, lines, steps = [], [], []
    for found in searches:
        flops = flops_of_levels(found.setting)
        for task in found.setting.tasks:
            label = f"whole search, {found.model}, {task}, {found.setting.precision}"
            own, papers, one = found.of_own(task), found.papers(task), found.of_one(task)
            rows += [
                Row(f"{label}: × nine dense trainings of our own", spread(own), float(np.median(own)),
                    OWN_TARGET, at_most=True),
                Row(f"{label}: times faster than the papers' way", spread(papers), float(np.median(papers)),
                    PAPERS_TARGETS.get(task)),
                Row(f"{label}: × one fine-tuning the papers' way", spread(one), float(np.median(one))),
            ]  # fmt: skip
            which = (found.model, found.setting.precision, task)
            lines.append((*which, spread(own), spread(papers), spread(one)))
            mean = [
                float(np.median([found.ratio(way, task, i) for i in range(found.setting.passes)]))
                for way in (*map(level_name, LEVELS), IMPORTANCE, PAPERS, PAPERS_GATED)
            ]
            cells = (f"{1e3 * found.seconds(DENSE, task):.0f} ms", *(f"{value:.2f}" for value in mean))
            steps.append((*which, *cells))
        share = (1 + sum(flops)) / TRAININGS
        cells = ("–", *(f"{value:.2f}" for value in flops), "–", "–", "–")
        steps.append((found.model, "FLOPs", f"Σ/9 = {share:.2f}", *cells))
    which = ("model", "precision", "task")
    head = (*which, "× nine dense trainings", "times faster than the papers' way", "× one of the papers'")
    pieces = (*which, "full model's step", *map(level_name, LEVELS), IMPORTANCE, PAPERS, PAPERS_GATED)
    setting = searches[0].setting
    words = WORDS.format(
        epochs=epochs(),
        batch=setting.batch_size,
        trainings=TRAININGS,
        levels=len(LEVELS),
        passes=" and ".join(dict.fromkeys(str(found.setting.passes) for found in searches)),
        strata=" and ".join(dict.fromkeys(str(found.setting.strata) for found in searches)),
        length=setting.max_length,
    )
    parts = [
        table(head, lines),
        "The pieces, as ratios to the full model's step on the same batches (median of the passes), and what the"
        " matrix products alone would say (for 16 tokens a sentence):",
        table(pieces, steps),
        words,
    ]
    return Section("A whole super-ticket search", "\n\n".join(parts), rows)


def flops_of_levels(setting: Setting, columns: int = 16) -> list[float]:
    """Shares of the matrix products that the levels leave."""
    full = step_flops(fresh_model(setting), setting.batch_size, columns)
    shares = []
    for level in LEVELS:
        model = fresh_model(setting)
        shrink(model, structure_at(model, level))
        shares.append(step_flops(model, setting.batch_size, columns) / full)
    return shares


def base_folder(folder: Path, make: Callable[[], object]) -> None:
    """A folder with a random model of BERT-base's sizes and the embedded model's tokenizer."""
    source = resolve("minilm-l6").folder
    make().save_pretrained(folder)  # type: ignore[attr-defined]
    for path in [*source.glob("*token*"), source / "vocab.txt"]:
        shutil.copy(path, folder / path.name)
