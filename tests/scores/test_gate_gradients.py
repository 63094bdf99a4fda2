"""Gate gradients of a batch on tensors small enough for the answers to be written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tombola.errors import UnsupportedModel
from tombola.scores.gate_gradients import Activations, GatedLayer, gate_gradients, recorded

#: Two examples of two tokens, the second token of the second example padding; two heads of one number.
CONTEXT = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
WEIGHT = torch.tensor([[[1.0, -1.0], [-2.0, 1.0]], [[0.0, 2.0], [9.0, 9.0]]])
ATTENDED = torch.tensor([[1, 1], [1, 0]])


def made_up(dtype: torch.dtype = torch.float32) -> tuple[Tensor, list[GatedLayer], Activations]:
    """One layer whose FFN gives 10 × its context; the loss is Σ weight · output, padding included."""
    context = CONTEXT.to(dtype).requires_grad_()
    output = 10 * context
    loss = (WEIGHT.to(dtype) * output).float().sum()
    return loss, [GatedLayer(2, nn.Identity(), nn.Identity())], Activations({0: context}, {0: output})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_examples_gradient_is_the_sum_of_its_tokens(dtype: torch.dtype) -> None:
    loss, layers, activations = made_up(dtype)
    found = gate_gradients(loss, layers, activations, ATTENDED)
    assert found.dtype == torch.float64
    # Heads: 10·(1·1 − 2·3) and 10·(−1·2 + 1·4); the FFN's gate multiplies both. Padding counts nothing.
    assert found.tolist() == [[-50.0, 20.0, -30.0], [0.0, 120.0, 120.0]]
    assert activations == Activations()


def test_a_tokens_absolute_value_comes_before_the_sum() -> None:
    loss, layers, activations = made_up()
    found = gate_gradients(loss, layers, activations, ATTENDED, per_token=True)
    assert found.tolist() == [[70.0, 60.0, 30.0], [0.0, 120.0, 120.0]]


def test_without_a_mask_all_tokens_count() -> None:
    loss, layers, activations = made_up()
    found = gate_gradients(loss, layers, activations, None)
    assert found.tolist()[1] == [630.0, 840.0, 1470.0]


def test_a_layer_that_did_not_run_is_told() -> None:
    loss, layers, activations = made_up()
    activations.outputs.clear()
    with pytest.raises(UnsupportedModel, match="did not take part"):
        gate_gradients(loss, layers, activations, ATTENDED)


def test_activations_without_a_batch_dimension_are_refused() -> None:
    loss, layers, activations = made_up()
    with pytest.raises(UnsupportedModel, match="examples × tokens × hidden"):
        gate_gradients(loss, layers, activations, ATTENDED.flatten()[None])


def test_the_graph_begins_at_the_first_recorded_activation() -> None:
    first, second = nn.Linear(2, 2, bias=False).requires_grad_(False), nn.Linear(2, 2).requires_grad_(False)
    layers = [GatedLayer(2, first, second)]
    context = torch.ones(1, 1, 2)
    with recorded(layers) as activations:
        output = second(first(context))
        assert output is activations.outputs[0]
        assert activations.contexts[0].is_leaf
        assert not output.is_leaf
        assert output.requires_grad
    assert activations == Activations()
    assert not context.requires_grad
    assert not second(first(context)).requires_grad
