"""Heads and FFNs removed: the share of the time that is left, against the share of the matrix products.

``python -m benchmarks.super_tickets --only removal`` measures this alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from benchmarks.gemm_roof import step_flops
from benchmarks.importance import BASE, base_model
from benchmarks.report import Row, Section, table
from benchmarks.search_ways import search_recipe, structure_at
from benchmarks.setting import Setting, fresh_model, wait_for
from tombola.deploy.interleaving import Ratio, Timing, interleaved, ratio_of_medians
from tombola.deploy.latency import latency
from tombola.masks.levels import drawn
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import anatomy_of
from tombola.models.surgery import shrink
from tombola.training.loop import loss_sum
from tombola.training.numerics import applied, autocast
from tombola.training.optimizers import build_optimizer

#: How much more of the time than of the FLOPs may be left (DESIGN 7).
ALLOWANCE = 0.08
LENGTH = 128
FULL = "full"

WORDS = """\
Shares are of the full model. Those of the FLOPs count matrix products alone, attention included. The forward pass of
T tokens in sequences of n takes, a layer with h heads of size d_h, 2·T·4·d·h·d_h (query, key, value, output)
+ 4·T·n·h·d_h (scores, weighted values) + 2·T·2·d·d_ff (the FFN, if it is there), and the pooler 2·d² a sequence;
backward is twice forward, so a step and inference have the same share. Softmax, LayerNorm, GELU, dropout,
the optimizer and the embeddings are in the time and not in the FLOPs.

A step is forward, backward, clipping and Adamax, by the training's own functions, dropout on; bf16 is its autocast.
Inference is the library's `latency` (bf16: weights in bf16). All tokens are real, {length} a sequence. The full and
the smaller models take turns in one process, in alternating order; shares are ratios of medians with the 95 % bootstrap
interval over the pairs (fewer than six: the range of the pairs' own ratios). The parts are drawn at random: which ones
are gone does not matter for the time. Pairs: {pairs}; batches of 1 as many as {few} at least."""


@dataclass(frozen=True)
class Subject:
    """A model that is measured, and how often; one that is slow gets fewer pairs and no warm-up of its own."""

    name: str
    make: Callable[[Setting], Any]
    pairs: int

    @property
    def warm_up(self) -> int:
        return int(self.pairs >= 6)


@dataclass(frozen=True)
class Measured:
    """Times of the full and the smaller models for one batch size."""

    batch: int
    step: Mapping[str, Timing]
    inference: Mapping[str, Timing]

    def share(self, work: str, name: str) -> Ratio:
        timings: Mapping[str, Timing] = getattr(self, work)
        return ratio_of_medians(timings[name], timings[FULL])


def subjects(setting: Setting, pairs: int, base_pairs: int) -> list[Subject]:
    """The setting's model and one of BERT-base's sizes; no pairs leave one out."""
    every = Subject(setting.model, fresh_model, pairs), Subject(BASE, base_model, base_pairs)
    return [subject for subject in every if subject.pairs]


def structures(model: Any) -> dict[str, StructureMask]:
    """What is removed, by its name in the tables."""
    heads = anatomy_of(model).heads_per_layer
    half_heads, half_ffns = sum(heads) // 2, len(heads) // 2
    return {
        "level 30%": structure_at(model, 0.3),
        "half of the heads": drawn(heads, heads=half_heads, ffns=0, seed=0),
        "half of the FFNs": drawn(heads, heads=0, ffns=half_ffns, seed=0),
        "half of both": drawn(heads, heads=half_heads, ffns=half_ffns, seed=0),
    }


def models_of(full: Any) -> dict[str, Any]:
    """The full model and, from its weights, the smaller ones."""
    models = {FULL: full}
    for name, mask in structures(full).items():
        models[name] = copy.deepcopy(full)
        shrink(models[name], mask)
    return models


def shares_of_flops(models: Mapping[str, Any], batch: int) -> dict[str, float]:
    """Of a step and of inference alike."""
    flops = {name: step_flops(model, batch, LENGTH) for name, model in models.items()}
    return {name: value / flops[FULL] for name, value in flops.items()}


def training_step(model: Any, setting: Setting) -> Callable[[Mapping[str, Tensor]], None]:
    """A step of the library's training on a given batch, with an optimizer of the model's own."""
    recipe = search_recipe(setting)
    optimizer = build_optimizer(model.named_parameters(), recipe, numerics=setting.numerics)
    parameters = list(model.parameters())

    def step(batch: Mapping[str, Tensor]) -> None:
        model.train()
        labels = torch.zeros(len(batch["input_ids"]), dtype=torch.long, device=setting.device)
        with autocast(setting.numerics):
            logits = model(**batch).logits
        (loss_sum(logits, labels) / len(labels)).backward()
        norm = get_total_norm([weight.grad for weight in parameters if weight.grad is not None])
        clip_grads_with_norm_(parameters, recipe.clip, norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def measure(models: Mapping[str, Any], setting: Setting, few: int, subject: Subject) -> tuple[Measured, ...]:
    """Steps and inference of all models in turns: on batches of 1, then of the setting's size."""
    sizes = ((1, max(few, subject.pairs), 1), (setting.batch_size, subject.pairs, subject.warm_up))
    steps = []
    with applied(setting.numerics) as device:
        training = {name: training_step(model.to(device), setting) for name, model in models.items()}
        for batch, pairs, warm_up in sizes:
            ids = torch.randint(5, models[FULL].config.vocab_size, (batch, LENGTH), device=device)
            given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            works = {name: partial(step, given) for name, step in training.items()}
            wait = partial(wait_for, setting.device)
            steps.append(interleaved(works, repeats=pairs, warm_up=warm_up, wait=wait))
        training.clear()
    found = []
    for (batch, pairs, warm_up), step in zip(sizes, steps, strict=True):
        cells = latency(
            models,
            batches=(batch,),
            lengths=(LENGTH,),
            repeats=max(2, pairs),
            warm_up=warm_up,
            threads=setting.threads,
            device=setting.device,
            precision=setting.precision,
        )
        found.append(Measured(batch, step, cells.cell(batch, LENGTH).timings))
    return tuple(found)


def section(
    settings: Sequence[Setting],
    say: Callable[[str], None],
    chosen: Sequence[Subject],
    few: int = 15,
) -> Section:
    """One row a model, precision (that of a setting) and structure; batches of 1 take ``few`` pairs."""
    rows, lines = [], []
    for subject in chosen:
        for setting in settings:
            say(f"removed parts, {subject.name}, {setting.precision}")
            models = models_of(subject.make(setting))
            shares = shares_of_flops(models, setting.batch_size)
            one, many = measure(models, setting, few, subject)
            for name, share in shares.items():
                lines.append(_line(subject, setting, name, share, one, many))
                if name == FULL:
                    continue
                for work in ("step", "inference"):
                    ratio = many.share(work, name)
                    what = f"{subject.name}, {setting.precision}, {name} gone: share of the time, {work}"
                    target = round(share + ALLOWANCE, 3)
                    rows.append(Row(what, str(ratio), ratio.value, target, at_most=True))
    head = (
        "model",
        "precision",
        "gone",
        "FLOPs",
        f"step, {settings[0].batch_size} × {LENGTH}",
        f"inference, {settings[0].batch_size} × {LENGTH}",
        f"step, 1 × {LENGTH}",
        f"inference, 1 × {LENGTH}",
    )
    pairs = ", ".join(f"{subject.pairs} of {subject.name}" for subject in chosen)
    words = WORDS.format(length=LENGTH, pairs=pairs, few=few)
    return Section("Parts removed", f"{table(head, lines)}\n\n{words}", rows)


def _line(
    subject: Subject, setting: Setting, name: str, share: float, one: Measured, many: Measured
) -> tuple[str, ...]:
    cells = []
    for measured in (many, one):
        for work in ("step", "inference"):
            if name == FULL:
                cells.append(f"{1e3 * getattr(measured, work)[FULL].median:.0f} ms")
            else:
                cells.append(str(measured.share(work, name)))
    return (subject.name, setting.precision, "–" if name == FULL else name, f"{share:.2f}", *cells)
