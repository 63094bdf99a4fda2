"""Sparsity after each round: linear in the original weights, geometric in what remains, or all at once."""

import pytest

from tombola.errors import RecipeError
from tombola.masks.schedule import round_sparsities


def test_linear_is_exact_decimals() -> None:
    assert round_sparsities("linear", 0.7, 0.1) == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    assert round_sparsities("linear", 0.25, 0.1) == (0.1, 0.2, 0.25)
    assert round_sparsities("linear", 0.05, 0.1) == (0.05,)


def test_geometric_takes_of_what_remains() -> None:
    assert round_sparsities("geometric", 0.5, 0.2) == (0.2, 0.36, 0.488, 0.5)
    assert round_sparsities("geometric", 0.271, 0.1) == (0.1, 0.19, 0.271)


def test_one_shot() -> None:
    assert round_sparsities("one_shot", 0.7, 0.1) == (0.7,)


@pytest.mark.parametrize(
    ("kind", "target", "step", "named"),
    [
        ("linaer", 0.5, 0.1, "schedule"),
        ("linear", 70, 0.1, "sparsity"),
        ("linear", 0.0, 0.1, "sparsity"),
        ("linear", 1.0, 0.1, "sparsity"),
        ("linear", float("nan"), 0.1, "sparsity"),
        ("linear", 0.5, 0.0, "step"),
        ("linear", 0.5, -0.1, "step"),
        ("linear", 0.5, 10, "step"),
        ("linear", 0.5, 1e-9, "step"),
        ("geometric", 0.999999, 1e-6, "step"),
    ],
)
def test_refused(kind: str, target: float, step: float, named: str) -> None:
    with pytest.raises(RecipeError) as caught:
        round_sparsities(kind, target, step)
    assert caught.value.where == named
