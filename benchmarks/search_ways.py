"""The pieces of a super-ticket search, and of the same search the papers' way, as loops that take turns."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.batches import Sample
from benchmarks.setting import Setting, fresh_model
from benchmarks.ways import Turn, Way, train_on
from tombola.masks.levels import LEVELS, drawn, ffns_removed_at, heads_removed_at
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import anatomy_of
from tombola.models.gating import gated
from tombola.models.surgery import shrink
from tombola.plan.defaults import super_recipe
from tombola.scores.importance import importance
from tombola.tasks.batching import collate
from tombola.training.numerics import autocast, on_device
from tombola.training.recipe import Recipe
from tombola.training.sparsity import Dense

DENSE, IMPORTANCE, PAPERS, PAPERS_GATED = "dense", "importance", "papers", "papers, gated"


def search_recipe(setting: Setting) -> Recipe:
    """The super tickets' recipe for one epoch: what a step does is what is measured, not when training stops."""
    return replace(
        super_recipe(None).without_stopping(),
        epochs=1,
        batch_size=setting.batch_size,
        max_length=setting.max_length,
    )


def structure_at(model: Any, level: float) -> StructureMask:
    """A ticket of the size of a level. Which parts it lacks does not matter for the time of a step."""
    heads = anatomy_of(model).heads_per_layer
    return drawn(
        heads, heads=heads_removed_at(level, sum(heads)), ffns=ffns_removed_at(level, len(heads)), seed=0
    )


def ours(setting: Setting, sample: Sample, turn: Turn, *, level: float) -> None:
    """tombola's own loop with the recipe of super tickets, on the model that a level leaves."""
    model = fresh_model(setting)
    if level:
        shrink(model, structure_at(model, level))
    train_on(sample, model, setting, search_recipe(setting), Dense(), turn)


def scores(setting: Setting, sample: Sample, turn: Turn) -> None:
    """The importance of all gates, a call a batch: the library makes one of all batches."""
    model = fresh_model(setting)
    for step in range(sample.steps):
        data = sample.data.take(sample.rows(step).tolist())
        importance(model, data, setting.numerics, batch_size=setting.batch_size)
        turn()


def papers(setting: Setting, sample: Sample, turn: Turn, *, level: float) -> None:
    """The published scripts' loop: padded, torch's Adamax one parameter after the other, gates on the full model."""
    model = fresh_model(setting).to(setting.device).train()
    recipe = search_recipe(setting)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adamax(
        parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, foreach=False
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / sample.steps)
    device = torch.device(setting.device)
    with gated(model, structure_at(model, level)) if level else nullcontext():
        for step in range(sample.steps):
            batch = on_device(
                collate(sample.data, sample.rows(step), pad_to=setting.max_length, multiple=1), device
            )
            labels = batch.pop("labels")
            with autocast(setting.numerics):
                logits = model(**batch).logits
            F.cross_entropy(logits.float(), labels).backward()
            torch.nn.utils.clip_grad_norm_(parameters, recipe.clip, foreach=False)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            turn()


def level_name(level: float) -> str:
    return f"level {level:.0%}"


#: Every piece by its name in the tables.
SEARCH_WAYS: dict[str, Way] = {
    DENSE: Way("buckets", partial(ours, level=0.0)),
    **{level_name(level): Way("buckets", partial(ours, level=level)) for level in LEVELS},
    IMPORTANCE: Way("buckets", scores),
    PAPERS: Way("random", partial(papers, level=0.0), padded=True),
    # Masked and not smaller: one level stands for all.
    PAPERS_GATED: Way("random", partial(papers, level=0.5), padded=True),
}
