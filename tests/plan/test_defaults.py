"""What a caller leaves open: the papers' recipes."""

from __future__ import annotations

import pytest

from tombola.plan.defaults import make_recipe, super_recipe
from tombola.tasks.task import TASKS
from tombola.training.recipe import Recipe


def test_the_super_tickets_recipe_is_the_papers() -> None:
    """SPEC 3.4."""
    assert super_recipe("rte") == Recipe(
        optimizer="adamax",
        learning_rate=1e-4,
        batch_size=32,
        epochs=6,
        early_stopping=True,
        patience=1,
        stop_share=0.1,
        schedule="linear",
        warmup_share=0.1,
        clip=1.0,
        weight_decay=0.01,
        decoupled_decay=True,
        decay_exempt="bias_and_norm",
        bias_correction=False,
        head_dropout=0.1,
        max_length=128,
    )


def test_two_tasks_have_another_dropout_of_the_head() -> None:
    dropouts = {task: super_recipe(task).head_dropout for task in TASKS}
    assert {task: dropout for task, dropout in dropouts.items() if dropout != 0.1} == {
        "mnli": 0.3,
        "cola": 0.05,
    }
    assert super_recipe(None).head_dropout == 0.1, "a file of one's own"


@pytest.mark.parametrize("method", [None, "imp", "random"])
def test_other_methods_train_as_the_bert_ticket_paper_does(method: str | None) -> None:
    assert make_recipe("rte", method=method) == make_recipe("rte") == Recipe()
    assert make_recipe(None, method=method) == Recipe()


def test_a_caller_changes_what_he_names() -> None:
    recipe = make_recipe("cola", method="super", epochs=2, learning_rate=None, max_length=512)
    assert recipe == super_recipe("cola").with_(epochs=2, max_length=512)
    assert make_recipe("cola", method="super", early_stopping=False).early_stopping is False
