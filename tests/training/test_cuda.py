"""The same promises on a GPU: equal bytes twice and after a resume, exact zeros, the CPU's losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.tiny_training import bits, make_mask, make_model, run, same_bytes

from tombola.models.anatomy import backbone_parameters
from tombola.tasks.encoding import Encoded
from tombola.training.loop import evaluate
from tombola.training.recipe import Numerics
from tombola.training.sparsity import FixedMask

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def _weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: weight.detach().cpu() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_equal_bytes_twice_and_after_a_resume(precision: Any, folder: Path, data: Encoded) -> None:
    numerics = Numerics(device="cuda", precision=precision)
    first, second, third = (make_model(folder) for _ in range(3))
    mask = make_mask(first)
    one = run(first, data, numerics=numerics, sparsity=FixedMask(mask), snapshots=(7,))
    two = run(second, data, numerics=numerics, sparsity=FixedMask(mask))
    run(third, data, numerics=numerics, sparsity=FixedMask(mask), resume_from=one.snapshots[7])
    assert one.log == two.log
    assert same_bytes(_weights(first), _weights(second))
    assert same_bytes(_weights(first), _weights(third))
    for name, weight in backbone_parameters(first).items():
        if name in mask:
            pruned = weight.detach().cpu()[~mask[name]]
            assert bits(pruned) == bytes(4 * len(pruned))
    logits = evaluate(first, data, numerics)
    assert logits.tobytes() == evaluate(second, data, numerics).tobytes()


def test_the_losses_are_the_cpus(calm_folder: Path, data: Encoded) -> None:
    on_cpu = run(make_model(calm_folder), data).log
    on_gpu = run(make_model(calm_folder), data, numerics=Numerics(device="cuda")).log
    for one, other in zip(on_cpu, on_gpu, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-3)
