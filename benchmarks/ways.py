"""The ways to fine-tune a ticket that are compared. Each is a loop that calls ``turn()`` after every step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.utils import prune

from benchmarks.batches import Grouping, Sample
from benchmarks.setting import Setting, fresh_model, magnitude_mask
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import backbone_of
from tombola.models.build import load_tokenizer
from tombola.models.resolve import resolve
from tombola.tasks.batching import collate
from tombola.training.callback import TicketCallback
from tombola.training.loop import train
from tombola.training.numerics import autocast, on_device
from tombola.training.recipe import Recipe
from tombola.training.sparsity import Dense, FixedMask, Sparsity

Turn = Callable[[], None]


@dataclass(frozen=True)
class Way:
    """One way to fine-tune: how batches are put together, and the loop that trains on them."""

    grouping: Grouping
    loop: Callable[[Setting, Sample, Turn], None]
    #: all batches are equally wide, so one of each task stands for all of them
    padded: bool = False


def ours(
    setting: Setting, sample: Sample, turn: Turn, *, masked: bool = True, multiple: int | None = None
) -> None:
    """tombola's own loop, as it is, over the sampled batches of an epoch instead of all of them.

    A ``multiple`` instead of the loop's own shows what rounding up the width of a batch costs.
    """
    model = fresh_model(setting)
    sparsity = FixedMask(magnitude_mask(model, setting.sparsity)) if masked else Dense()
    train_on(sample, model, setting, setting.recipe, sparsity, turn, multiple)


def train_on(
    sample: Sample,
    model: Any,
    setting: Setting,
    recipe: Recipe,
    sparsity: Sparsity,
    turn: Turn,
    multiple: int | None = None,
) -> None:
    """The library's loop over the sampled batches."""

    def sampled(start: int, **_: Any) -> Iterator[tuple[int, int, np.ndarray]]:
        return ((step, 0, sample.rows(step)) for step in range(start, sample.steps))

    rounding = (
        patch("tombola.training.loop.width_multiple", lambda device: multiple) if multiple else nullcontext()
    )
    with patch("tombola.training.loop.batches_from", sampled), rounding:
        train(
            model,
            sample.data,
            recipe,
            setting.numerics,
            seed=0,
            purpose="benchmark",
            sparsity=sparsity,
            progress=lambda *_: turn(),
        )


def papers(
    setting: Setting,
    sample: Sample,
    turn: Turn,
    *,
    pad: bool = True,
    fused: bool = False,
    parametrised: bool = True,
) -> None:
    """The published scripts' loop: torch.nn.utils.prune multiplies by the mask in every forward pass.

    ``pad`` to the full length, AdamW not ``fused`` and a ``parametrised`` mask are the papers' way; each can
    be exchanged for ours.
    """
    model = fresh_model(setting).to(setting.device)
    mask = magnitude_mask(model, setting.sparsity)
    sparsity = Dense() if parametrised else FixedMask(mask)
    if parametrised:
        parametrise(model, mask)
    sparsity.attach(model)
    recipe = setting.recipe
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        parameters, lr=recipe.learning_rate, weight_decay=0.0, foreach=False, fused=fused
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / sample.steps)
    sparsity.bind(optimizer)
    for step in range(sample.steps):
        batch = collate(
            sample.data, sample.rows(step), pad_to=setting.max_length if pad else None, multiple=1
        )
        batch = on_device(batch, torch.device(setting.device))
        labels = batch.pop("labels")
        with autocast(setting.numerics):
            logits = model(**batch).logits
        F.cross_entropy(logits.float(), labels).backward()
        sparsity.before_clip()
        torch.nn.utils.clip_grad_norm_(parameters, recipe.clip, foreach=False)
        optimizer.step()
        sparsity.after_step(step)
        schedule.step()
        optimizer.zero_grad()
        turn()


def parametrise(model: Any, mask: WeightMask) -> None:
    """The mask as torch.nn.utils.prune has it: weight = weight_orig ⊙ mask, again in every forward pass."""
    backbone = backbone_of(model)
    for name in mask.names:
        module = backbone.get_submodule(name.removesuffix(".weight"))
        prune.custom_from_mask(module, "weight", mask[name].to(module.weight.device))  # type: ignore[arg-type]


def trainer(setting: Setting, sample: Sample, turn: Turn, *, best: bool) -> None:
    """transformers' Trainer with our callback; ``sample`` holds the batches of its own sampler.

    Its optimizer is the fused AdamW by default. ``best`` also turns off what costs time between steps.
    """
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class TakesTurns(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            turn()

    model = fresh_model(setting)
    options: dict[str, Any] = {"disable_tqdm": True}
    if best:
        options |= {
            "logging_strategy": "no",
            "save_strategy": "no",
            "logging_nan_inf_filter": False,
            "dataloader_pin_memory": setting.device == "cuda",
            "dataloader_num_workers": 0,
        }
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=setting.batch_size,
            num_train_epochs=1,
            learning_rate=setting.recipe.learning_rate,
            bf16=setting.precision == "bf16",
            use_cpu=setting.device == "cpu",
            report_to="none",
            # The examples lie in the order in which its own sampler would draw them.
            train_sampling_strategy="sequential",
            **options,
        )
        Trainer(
            model=model,
            args=arguments,
            train_dataset=_features(sample),  # type: ignore[arg-type]
            processing_class=load_tokenizer(resolve(setting.model)),
            callbacks=[TicketCallback(magnitude_mask(model, setting.sparsity)), TakesTurns()],
        ).train()


def _features(sample: Sample) -> list[dict[str, Any]]:
    """The examples as a datasets.Dataset would give them: lists of numbers."""
    data = sample.data
    features: list[dict[str, Any]] = []
    for row in range(len(data)):
        piece = slice(int(data.offsets[row]), int(data.offsets[row + 1]))
        ids = data.ids[piece].tolist()
        feature = {"input_ids": ids, "attention_mask": [1] * len(ids), "label": int(data.targets[row])}  # type: ignore[index]
        if data.type_ids is not None:
            feature["token_type_ids"] = data.type_ids[piece].tolist()
        features.append(feature)
    return features


#: Every way by its name in the tables.
WAYS: dict[str, Way] = {
    "ours": Way("buckets", ours),
    "ours, dense": Way("buckets", partial(ours, masked=False)),
    "ours, rounded to 8": Way("buckets", partial(ours, multiple=8)),
    "papers": Way("random", papers, padded=True),
    "padding": Way("random", partial(papers, pad=False)),
    "padding and buckets": Way("buckets", partial(papers, pad=False)),
    "optimizer": Way("random", partial(papers, fused=True), padded=True),
    "mask": Way("random", partial(papers, parametrised=False), padded=True),
    "Trainer, default": Way("random", partial(trainer, best=False)),
    "Trainer, best": Way("trainer", partial(trainer, best=True)),
}
