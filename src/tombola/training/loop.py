"""The training loop. Everything sparse enters through one seam (sparsity.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from tombola import streams
from tombola.errors import DataError, RecipeError
from tombola.models.anatomy import unwrapped
from tombola.tasks.batching import collate
from tombola.tasks.encoding import Encoded
from tombola.training.checkpoint import Checkpoints
from tombola.training.evaluate import evaluate
from tombola.training.history import History, TrainingResult
from tombola.training.numerics import applied, autocast, on_device, width_multiple
from tombola.training.optimizers import build_optimizer, load_optimizer_state, set_learning_rate
from tombola.training.order import batches_from
from tombola.training.ranks import ALONE, Ranks
from tombola.training.recipe import Numerics, Recipe
from tombola.training.schedules import learning_rate_factor
from tombola.training.sparsity import Sparsity
from tombola.training.state import TrainingState, capture, restore_model
from tombola.training.stopping import Stopping

__all__ = ["TrainingResult", "evaluate", "train"]


def train(
    model: nn.Module,
    data: Encoded,
    recipe: Recipe,
    numerics: Numerics,
    *,
    seed: int,
    purpose: str,
    sparsity: Sparsity,
    resume_from: TrainingState | None = None,
    first_step: int = 0,
    snapshots: Sequence[int] = (),
    on_snapshot: Callable[[TrainingState], None] | None = None,
    checkpoint_folder: Path | None = None,
    checkpoint_every_seconds: float = 60.0,
    run: str = "",
    progress: Callable[[int, int, float], None] | None = None,
    log_every: int = 50,
    ranks: Ranks = ALONE,
    stopping: Stopping | None = None,
) -> TrainingResult:
    """Train ``model`` in place, from ``first_step`` or from θi (``resume_from``), to the recipe's last step.

    Order and dropout draw from streams of (seed, purpose), so the result is a function of the arguments. With
    a ``checkpoint_folder``, a killed training that is called again goes on to the same bytes; ``run`` names
    what the folder's checkpoints cannot tell (model, data, mask). ``snapshots`` are states after so many
    steps: in the result, or given to ``on_snapshot`` (after a kill, again).
    ``stopping`` is what a recipe with early stopping stops by; ``model`` is then the best epoch's.
    ``progress`` hears of every step; if it raises KeyboardInterrupt, a checkpoint is saved first.
    """
    began = time.perf_counter()
    total, warmup = recipe.total_steps(len(data)), recipe.warmup_steps(len(data))
    first_step = resume_from.step if resume_from else first_step
    _check(data, total, first_step, snapshots, resume_from)
    if recipe.early_stopping != (stopping is not None):
        raise RecipeError(
            "early stopping takes both: a recipe that asks for it, and a Stopping to stop by",
            where="early_stopping",
            todo="give stopping=Stopping(recipe, dev, metrics, numerics), or recipe.without_stopping()",
        )
    if numerics.world_size != ranks.size:
        raise RecipeError(
            f"this training is for {numerics.world_size} processes and runs on {ranks.size}",
            where="numerics.world_size",
            todo="start it with tombola.training.launch and pass joined(numerics)'s ranks",
        )

    batches = partial(batches_from, lengths=data.lengths, recipe=recipe, seed=seed, purpose=purpose)

    def rate(step: int) -> float:
        return learning_rate_factor(step, total, warmup, recipe.schedule)

    taken: dict[int, TrainingState] = {}
    checkpoints = Checkpoints(
        checkpoint_folder,
        {
            "recipe": recipe.to_json(),
            "numerics": numerics.to_json(),
            "stream": [seed, purpose],
            "steps": [first_step, total],
            "examples": len(data),
            "run": run,
        },
        every_seconds=checkpoint_every_seconds,
        snapshots=snapshots,
        on_snapshot=on_snapshot or (lambda state: taken.update({state.step: state})),
        writes=ranks.rank == 0,
    )
    state = checkpoints.newest() or resume_from

    with applied(numerics) as device:
        model.to(device).train()
        if state:
            restore_model(model, state)
        extra_groups = sparsity.attach(model)
        optimizer = build_optimizer(unwrapped(model).named_parameters(), recipe, extra_groups, numerics)
        if state:
            load_optimizer_state(optimizer, state.optimizer)
            sparsity.load_state(state.sparsity)
        if stopping:
            stopping.load_state(state.stopping if state else {})
        sparsity.bind(optimizer)
        optimizer.zero_grad(set_to_none=True)
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        history = History(total, first_step, device, state.history if state else {})

        def current(step: int) -> TrainingState:
            history.check(step)
            return capture(
                model,
                optimizer,
                sparsity.state(),
                step=step,
                total=total,
                history=history.tensors(step),
                stopping=stopping.state() if stopping else {},
            )

        done = state.step if state else first_step
        for step, epoch, indices in batches(done):
            if stopping and stopping.over:
                break
            checkpoints.between_steps(step, current)
            set_learning_rate(optimizer, rate(step))
            torch.manual_seed(streams.derive(seed, purpose, "dropout", step, *ranks.stream))
            sparsity.before_step(step, {"indices": indices, "epoch": epoch})

            loss = _backward(model, data, indices, recipe, numerics, ranks, device)
            penalty = sparsity.penalty()
            if penalty is not None:
                penalty.backward()

            sparsity.before_clip()
            norm = get_total_norm([weight.grad for weight in parameters if weight.grad is not None])
            if recipe.clip:
                clip_grads_with_norm_(parameters, recipe.clip, norm)
            optimizer.step()
            sparsity.after_step(step)
            optimizer.zero_grad(set_to_none=True)

            history.add(step, ranks.add_up(loss), norm)
            done = step + 1
            if stopping and done % recipe.steps_per_epoch(len(data)) == 0:
                history.check(done)
                stopping.after_epoch(epoch + 1, done, model, sparsity)
            if progress:
                try:
                    progress(done, total, time.perf_counter() - began)
                except KeyboardInterrupt:
                    checkpoints.save(current(done))
                    raise
        history.check(done)
        checkpoints.between_steps(done, current)
        _check_taken(snapshots, done)
        if stopping:
            stopping.restore_best(model, sparsity)
        mask = sparsity.detach()

    return TrainingResult(
        steps=done,
        first_step=first_step,
        examples=sum(len(indices) for step, _, indices in batches(first_step) if step < done),
        log=history.rows(done, log_every, lambda step: recipe.learning_rate * rate(step)),
        mask=mask,
        snapshots=taken,
        seconds=time.perf_counter() - began,
        epochs=tuple(stopping.epochs) if stopping else (),
        best_epoch=stopping.best.epoch if stopping and stopping.best else None,
    )


def loss_sum(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss summed over examples, in fp32: cross-entropy for classes, squared error for numbers."""
    if labels.is_floating_point():
        return F.mse_loss(logits.float().squeeze(-1), labels, reduction="sum")
    return F.cross_entropy(logits.float(), labels, reduction="sum")


def _backward(
    model: nn.Module,
    data: Encoded,
    indices: np.ndarray,
    recipe: Recipe,
    numerics: Numerics,
    ranks: Ranks,
    device: torch.device,
) -> Tensor:
    """Gradients of the batch's mean loss, part by part; gives this process's share of the loss."""
    loss = torch.zeros((), device=device)
    for part, weight in ranks.micro_batches(indices, numerics.micro_batch):
        pad_to = recipe.max_length if recipe.padding == "max_length" else None
        batch = on_device(collate(data, part, pad_to=pad_to, multiple=width_multiple(device)), device)
        labels = batch.pop("labels")
        with autocast(numerics):
            logits = model(**batch).logits
        share = loss_sum(logits, labels) * (weight / len(indices))
        # Wrappers for several processes average gradients, and this batch's loss is a sum over processes.
        (share * ranks.size).backward()
        loss += share.detach()
    return loss


def _check(
    data: Encoded, total: int, first_step: int, snapshots: Sequence[int], resume_from: TrainingState | None
) -> None:
    if len(data) == 0 or data.targets is None:
        raise DataError("there is nothing to train on", where="data", todo="give labelled examples")
    if resume_from is not None and resume_from.total != total:
        raise RecipeError(
            f"the state is of a training of {resume_from.total} steps, this one has {total}",
            where="resume_from",
            todo="rewind with the recipe and the data that the state was made with",
        )
    for name, step in [("first_step", first_step), *(("snapshots", step) for step in snapshots)]:
        if not (0 if name == "first_step" else first_step) <= step <= total:
            raise RecipeError(f"there is no step {step} in this training", where=name, todo=f"0 to {total}")


def _check_taken(snapshots: Sequence[int], done: int) -> None:
    """A state that somebody waits for must not be missing in silence."""
    for step in snapshots:
        if step > done:
            raise RecipeError(
                f"the training stopped early, after {done} steps: it has no state of step {step}",
                where="snapshots",
                todo="rewind to an earlier step, or set early_stopping: false",
            )
