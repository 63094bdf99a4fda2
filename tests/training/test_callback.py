"""TicketCallback with transformers' real Trainer on a tiny BERT."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from tests.tiny import tiny_config
from torch import nn
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from tombola.errors import MaskMismatch, UsageError
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of, backbone_parameters
from tombola.training.callback import TicketCallback

EXAMPLES = 8


def model_of(tiny_bert: Path, dropout: float = 0.0) -> BertForSequenceClassification:
    torch.manual_seed(5)
    return BertForSequenceClassification.from_pretrained(
        tiny_bert, num_labels=2, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )


def random_mask(model: nn.Module, keep: float = 0.4) -> WeightMask:
    draw = torch.Generator().manual_seed(1)
    return WeightMask(
        {name: torch.rand(shape, generator=draw) < keep for name, shape in anatomy_of(model).shapes.items()}
    )


def data() -> list[dict[str, Any]]:
    draw = torch.Generator().manual_seed(2)
    return [
        {
            "input_ids": torch.randint(5, 60, (12,), generator=draw),
            "attention_mask": torch.ones(12, dtype=torch.long),
            "labels": index % 2,
        }
        for index in range(EXAMPLES)
    ]


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    settings: dict[str, Any] = {
        "per_device_train_batch_size": EXAMPLES,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "weight_decay": 0.1,
        "max_grad_norm": 0.01,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": 3,
    }
    return TrainingArguments(output_dir=str(folder), **{**settings, **changes})


def trained(
    model: nn.Module, folder: Path, *callbacks: TrainerCallback, resume: str | None = None, **changes: Any
) -> Trainer:
    trainer = Trainer(model, arguments(folder, **changes), train_dataset=data(), callbacks=list(callbacks))  # type: ignore[arg-type]
    trainer.remove_callback(transformers.PrinterCallback)
    # BERT's classification loss ignores the item count that this Trainer gives it, so no average is taken.
    trainer.model_accepts_loss_kwargs = False
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def norms(trainer: Trainer) -> list[float]:
    return [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]


def hooks_of(model: nn.Module) -> int:
    return sum(len(weight._backward_hooks or {}) for weight in model.parameters())


def assert_exactly_zero(model: nn.Module, mask: WeightMask) -> None:
    weights = backbone_parameters(model)
    for name in mask.names:
        dropped = weights[name].detach().cpu()[~mask[name]]
        assert bool((dropped == 0).all()), name
        assert not bool(torch.signbit(dropped).any()), f"{name} holds -0.0"
    assert WeightMask.of_weights(weights, mask.names) == mask


class Watch(TrainerCallback):
    """Looks at the model after each step, as a checkpoint would."""

    def __init__(self, mask: WeightMask) -> None:
        self.mask, self.steps = mask, 0

    def on_step_end(self, args, state, control, **kwargs) -> None:
        assert_exactly_zero(kwargs["model"], self.mask)
        self.steps += 1


def by_hand(model: nn.Module, mask: WeightMask, steps: int = 4) -> list[float]:
    """The same training in plain torch: mask the gradients, clip, step, zero."""
    weights = backbone_parameters(model)
    batch = {key: torch.stack([torch.as_tensor(row[key]) for row in data()]) for key in data()[0]}
    plain = [p for n, p in model.named_parameters() if "bias" in n or "LayerNorm" in n]
    decayed = [p for n, p in model.named_parameters() if not ("bias" in n or "LayerNorm" in n)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-2
    )
    measured = []
    for name in mask.names:
        weights[name].data[~mask[name]] = 0.0
    for _ in range(steps):
        model.train()
        model(**batch).loss.backward()
        for name in mask.names:
            weights[name].grad[~mask[name]] = 0.0
        measured.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.01)))
        optimizer.step()
        optimizer.zero_grad()
        for name in mask.names:
            weights[name].data[~mask[name]] = 0.0
    return measured


class MaskedTooLate(TrainerCallback):
    """The wrong way (trap 8): the Trainer has already clipped when it calls this."""

    def __init__(self, mask: WeightMask) -> None:
        self.mask = mask

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        self.on_optimizer_step(args, state, control, **kwargs)

    def on_pre_optimizer_step(self, args, state, control, **kwargs) -> None:
        for name, weight in backbone_parameters(kwargs["model"]).items():
            if name in self.mask:
                weight.grad[~self.mask[name]] = 0.0

    def on_optimizer_step(self, args, state, control, **kwargs) -> None:
        for name, weight in backbone_parameters(kwargs["model"]).items():
            if name in self.mask:
                weight.data[~self.mask[name]] = 0.0


def test_training_equals_plain_torch_clipping_included(tiny_bert: Path, tmp_path: Path) -> None:
    model, reference = model_of(tiny_bert), model_of(tiny_bert)
    mask = random_mask(model)
    expected = by_hand(reference, mask)
    assert min(expected) > 0.01, "clipping must be at work in this test"
    watch = Watch(mask)
    trainer = trained(model, tmp_path, TicketCallback(mask), watch)
    assert watch.steps == 4
    assert norms(trainer) == pytest.approx(expected, rel=1e-4)
    for (name, weight), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(weight, other, msg=name, rtol=1e-4, atol=2e-5)


def test_masking_after_the_trainers_clip_would_be_seen(tiny_bert: Path, tmp_path: Path) -> None:
    """Guards the test above: the wrong callback gives other norms and other weights."""
    model, reference = model_of(tiny_bert), model_of(tiny_bert)
    mask = random_mask(model)
    expected = by_hand(reference, mask)
    trainer = trained(model, tmp_path, MaskedTooLate(mask))
    assert norms(trainer)[0] > 1.1 * expected[0]


def test_accumulation_gives_the_same_as_one_large_batch(tiny_bert: Path, tmp_path: Path) -> None:
    whole, parts = model_of(tiny_bert), model_of(tiny_bert)
    mask = random_mask(whole)
    first = trained(whole, tmp_path, TicketCallback(mask), optim="sgd")
    second = trained(
        parts,
        tmp_path,
        TicketCallback(mask),
        Watch(mask),
        optim="sgd",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
    )
    assert norms(second) == pytest.approx(norms(first), rel=1e-4)
    for (name, weight), other in zip(parts.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(weight, other, msg=name, rtol=1e-4, atol=1e-5)


def test_resuming_equals_an_uninterrupted_training(tiny_bert: Path, tmp_path: Path) -> None:
    settings = {"per_device_train_batch_size": 2, "max_steps": 6, "save_strategy": "steps", "save_steps": 3}
    whole, again = model_of(tiny_bert, dropout=0.1), model_of(tiny_bert, dropout=0.1)
    mask = random_mask(whole)
    trained(whole, tmp_path, TicketCallback(mask), **settings)
    trained(
        again, tmp_path, TicketCallback(mask), Watch(mask), resume=str(tmp_path / "checkpoint-3"), **settings
    )
    for (name, weight), other in zip(again.named_parameters(), whole.named_parameters(), strict=True):
        assert torch.equal(weight, other[1]), name


@pytest.mark.parametrize("optim", ["adamw_torch_fused", "adamw_torch", "sgd"])
def test_a_mask_set_after_a_dense_training_clears_the_optimizers_memory(
    tiny_bert: Path, tmp_path: Path, optim: str
) -> None:
    """Trap 7: momentum moves weights without a gradient."""
    model = model_of(tiny_bert)
    mask = random_mask(model)
    trainer = trained(model, tmp_path, optim=optim)
    if optim == "sgd":
        for group in trainer.optimizer.param_groups:  # type: ignore[union-attr]
            group["momentum"] = 0.9
        trainer.train()
    weights = backbone_parameters(model)
    assert all(_moments(trainer, weight) for weight in (weights[name] for name in mask.names))
    trainer.add_callback(TicketCallback(mask))
    trainer.add_callback(Watch(mask))

    class Moments(TrainerCallback):
        seen = 0

        def on_step_end(self, args, state, control, **kwargs) -> None:
            for name in mask.names:
                for moment in _moments(trainer, weights[name]):
                    assert bool((moment[~mask[name]] == 0).all()), name
                    Moments.seen += 1

    trainer.add_callback(Moments())
    trainer.train()
    assert Moments.seen > 0
    assert_exactly_zero(model, mask)


def _moments(trainer: Trainer, weight: nn.Parameter) -> list[torch.Tensor]:
    state = trainer.optimizer.state[weight]  # type: ignore[union-attr]
    return [
        value for value in state.values() if isinstance(value, torch.Tensor) and value.shape == weight.shape
    ]


def test_weights_are_zeroed_even_if_the_optimizer_moves_them(tiny_bert: Path, tmp_path: Path) -> None:
    class Noisy(torch.optim.SGD):
        """Langevin dynamics: moves every weight, whatever its gradient."""

        def step(self, closure=None):  # type: ignore[override]
            super().step(closure)
            for group in self.param_groups:
                for weight in group["params"]:
                    weight.data.add_(torch.randn_like(weight), alpha=0.01)

    model = model_of(tiny_bert)
    mask = random_mask(model)
    trainer = Trainer(
        model,
        arguments(tmp_path),
        train_dataset=data(),  # type: ignore[arg-type]
        callbacks=[TicketCallback(mask), Watch(mask)],
        optimizers=(Noisy(model.parameters(), lr=1e-2), None),
    )
    trainer.train()
    assert_exactly_zero(model, mask)


def test_nothing_is_left_in_the_model(tiny_bert: Path, tmp_path: Path) -> None:
    model = model_of(tiny_bert)
    keys = list(model.state_dict())
    trained(model, tmp_path, TicketCallback(random_mask(model)))
    assert hooks_of(model) == 0
    assert list(model.state_dict()) == keys
    model.save_pretrained(tmp_path / "plain")
    plain = BertForSequenceClassification.from_pretrained(tmp_path / "plain")
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), model.parameters(), strict=True))


class Breaks(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt


def test_an_exception_leaves_no_hook_behind(tiny_bert: Path, tmp_path: Path) -> None:
    model = model_of(tiny_bert)
    with pytest.raises(KeyboardInterrupt), TicketCallback(random_mask(model)) as callback:
        trained(model, tmp_path, callback, Breaks())
    assert hooks_of(model) == 0


def test_training_again_after_an_exception_hooks_once(tiny_bert: Path, tmp_path: Path) -> None:
    model = model_of(tiny_bert)
    mask = random_mask(model)
    callback = TicketCallback(mask)
    with pytest.raises(KeyboardInterrupt):
        trained(model, tmp_path, callback, Breaks())
    assert hooks_of(model) == len(mask.names)
    trained(model, tmp_path, callback)
    assert hooks_of(model) == 0


def test_a_forgotten_callback_takes_its_hooks_along(tiny_bert: Path) -> None:
    model = model_of(tiny_bert)
    callback = TicketCallback(random_mask(model))
    callback.attach(model)
    assert hooks_of(model) > 0
    del callback
    gc.collect()
    assert hooks_of(model) == 0


def test_layers_unfrozen_in_the_middle_are_masked_too(tiny_bert: Path, tmp_path: Path) -> None:
    model = model_of(tiny_bert)
    mask = random_mask(model)
    model.bert.encoder.requires_grad_(False)

    class Thaw(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs) -> None:
            model.bert.encoder.requires_grad_(True)

    seen: list[bool] = []

    class Look(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs) -> None:
            weight = model.bert.encoder.layer[0].output.dense.weight
            if weight.grad is not None:
                seen.append(bool((weight.grad[~mask["encoder.layer.0.output.dense.weight"]] == 0).all()))

    trained(model, tmp_path, Thaw(), TicketCallback(mask), Look())
    assert seen == [True] * 3
    assert hooks_of(model) == 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")  # torch's own import
@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_wrapped_models_have_the_same_names(tiny_bert: Path, wrap) -> None:
    """Trap 12."""
    model = model_of(tiny_bert)
    mask = random_mask(model)
    with TicketCallback(mask) as callback:
        callback.attach(wrap(model))
        assert hooks_of(model) == len(mask.names)
    assert_exactly_zero(model, mask)


def test_a_class_without_pooler_is_masked_on_the_rest(tiny_bert: Path) -> None:
    """Trap 13: BertForMaskedLM has no pooler; a classifier's mask fits it, the difference is told."""
    model = model_of(tiny_bert)
    mask = random_mask(model)
    masked_lm = BertForMaskedLM(tiny_config("bert"))
    with TicketCallback(mask) as callback:
        callback.attach(masked_lm)
    assert callback.skipped == ("pooler.dense.weight",)
    assert_exactly_zero(masked_lm, mask.restrict(name for name in mask.names if "pooler" not in name))


def test_a_mask_that_does_not_fit_names_the_parameter(tiny_bert: Path, tmp_path: Path) -> None:
    model = model_of(tiny_bert)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    name = "encoder.layer.1.output.dense.weight"
    entries = dict(random_mask(model))
    for wrong in (
        {**entries, name: entries[name].T.contiguous()},
        {**entries, "encoder.layer.7.w": entries[name]},
    ):
        mask = WeightMask(wrong)
        with pytest.raises(MaskMismatch, match=r"encoder\.layer\.(1\.output\.dense\.weight|7\.w)"):
            trained(model, tmp_path, TicketCallback(mask))
    assert hooks_of(model) == 0
    assert all(torch.equal(weight, before[key]) for key, weight in model.state_dict().items())


def test_another_family_of_the_same_shape_is_refused(tiny_bert: Path) -> None:
    """BERT and RoBERTa share every name and shape that is pruned; a ticket of one is none of the other."""
    mask = random_mask(model_of(tiny_bert))
    ticket = SimpleNamespace(mask=mask, model={"family": "roberta"})
    with pytest.raises(MaskMismatch, match="roberta"):
        TicketCallback(ticket).attach(model_of(tiny_bert))
    TicketCallback(SimpleNamespace(mask=mask, model={"family": "bert"})).attach(model_of(tiny_bert))


def test_what_is_no_weight_ticket_is_refused() -> None:
    with pytest.raises(UsageError, match=r"tombola\.load"):
        TicketCallback(SimpleNamespace(mask={"heads": [1, 0]}))
    with pytest.raises(UsageError, match="from_pretrained"):
        TicketCallback("tickets/rte-imp-50")


def test_sharded_training_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    model = model_of(tiny_bert)
    callback = TicketCallback(random_mask(model))
    with pytest.raises(UsageError, match="fsdp"):
        callback.on_train_begin(SimpleNamespace(fsdp=True), None, None, model=model)
    assert hooks_of(model) == 0
    assert bool(model.bert.pooler.dense.weight.all()), "nothing was touched"
