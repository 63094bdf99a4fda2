"""Every test: one thread, no network, and a tiny random BERT in a folder for whoever wants it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# A test must never read or fill the caches of whoever runs it.
os.environ["TOMBOLA_CACHE"] = tempfile.mkdtemp(prefix="tombola-tests-")

import pytest
import torch
from tests.tiny import tiny_bert_folder

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random BERT: 2 layers, hidden 16, 2 heads, intermediate 32. Only read it."""
    return tiny_bert_folder(tmp_path_factory.mktemp("models"))
