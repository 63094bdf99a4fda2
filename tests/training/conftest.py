"""What the training tests share: one tiny model and its data a session (both only read)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.training import tiny_training

from tombola.tasks.encoding import Encoded


@pytest.fixture(scope="session")
def folder(tiny_bert: Path) -> Path:
    return tiny_bert


@pytest.fixture(scope="session")
def data(folder: Path) -> Encoded:
    return tiny_training.make_data(folder)


@pytest.fixture(scope="session")
def calm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same BERT without dropout, for comparisons with other ways to compute the same."""
    config = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return tiny_training.make_folder(tmp_path_factory.mktemp("calm"), **config)
