"""The same on a GPU: masks exact, bits repeatable, a killed training resumed, the Trainer's callback."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.training import test_callback, two_processes

from tombola.errors import RecipeError
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import backbone_parameters
from tombola.training.callback import TicketCallback
from tombola.training.distributed import joined
from tombola.training.evaluate import evaluate
from tombola.training.launch import launch
from tombola.training.loop import train
from tombola.training.recipe import Numerics
from tombola.training.sparsity import FixedMask

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def trained(numerics: Numerics, checkpoints: Path | None = None, stop: int | None = None) -> torch.nn.Module:
    def progress(done: int, total: int, seconds: float) -> None:
        if done == stop:
            raise KeyboardInterrupt

    model = two_processes.model()
    arguments = {"seed": 3, "purpose": "search", "sparsity": FixedMask(two_processes.mask())}
    train(
        model,
        two_processes.data(),
        two_processes.RECIPE,
        numerics,
        checkpoint_folder=checkpoints,
        progress=progress,
        **arguments,  # type: ignore[arg-type]
    )
    return model


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_masked_training_is_exact_and_repeatable(precision) -> None:
    numerics = Numerics(device="cuda", precision=precision)
    first, again = trained(numerics), trained(numerics)
    mask = two_processes.mask()
    assert WeightMask.of_weights(backbone_parameters(first), mask.names) == mask
    for (name, weight), other in zip(first.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(weight, other), name
    logits = [evaluate(model, two_processes.data(), numerics) for model in (first, again)]
    assert (logits[0] == logits[1]).all()


def test_the_gpu_computes_what_the_cpu_computes() -> None:
    gpu, cpu = trained(Numerics(device="cuda")), trained(Numerics())
    for (name, weight), other in zip(gpu.named_parameters(), cpu.parameters(), strict=True):
        torch.testing.assert_close(weight.cpu(), other, msg=name, rtol=1e-3, atol=1e-4)


def test_a_killed_training_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    numerics = Numerics(device="cuda")
    whole = trained(numerics)
    with pytest.raises(KeyboardInterrupt):
        trained(numerics, tmp_path, stop=3)
    resumed = trained(numerics, tmp_path)
    for (name, weight), other in zip(whole.named_parameters(), resumed.parameters(), strict=True):
        assert torch.equal(weight, other), name


@pytest.mark.parametrize("bf16", [False, True])
def test_the_trainer_with_a_ticket(tiny_bert: Path, tmp_path: Path, bf16: bool) -> None:
    model = test_callback.model_of(tiny_bert)
    mask = test_callback.random_mask(model)
    callback, watch = TicketCallback(mask), test_callback.Watch(mask)
    trainer = test_callback.trained(model, tmp_path, callback, watch, use_cpu=False, bf16=bf16)
    assert next(model.parameters()).is_cuda
    assert watch.steps == 4
    assert test_callback.hooks_of(model) == 0
    if not bf16:
        reference = test_callback.model_of(tiny_bert)
        assert test_callback.norms(trainer) == pytest.approx(test_callback.by_hand(reference, mask), rel=1e-2)


def test_more_processes_than_gpus_are_refused() -> None:
    numerics = Numerics(device="cuda", world_size=torch.cuda.device_count() + 1)
    with pytest.raises(RecipeError, match="needs a CUDA device of its own"):
        launch("tests.training.test_cuda:join", {"world_size": numerics.world_size}, numerics)


def join(value: dict[str, int]) -> None:
    with joined(Numerics(device="cuda", world_size=value["world_size"])):
        pass
