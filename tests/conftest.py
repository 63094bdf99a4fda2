"""Every test: one thread, no network, and a tiny random BERT in a folder for whoever wants it."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# A test must never read or fill the caches of whoever runs it.
os.environ["TOMBOLA_CACHE"] = tempfile.mkdtemp(prefix="tombola-tests-")

import pytest
import torch
from tests.tiny import WORDS, tiny_bert_folder

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random BERT: 2 layers, hidden 16, 2 heads, intermediate 32. Only read it."""
    return tiny_bert_folder(tmp_path_factory.mktemp("models"))


GOOD, BAD = WORDS[10:20], WORDS[20:30]


@pytest.fixture(scope="session")
def sentences(tmp_path_factory):
    """200 sentences whose class is which half of the words they use: a tiny model can learn it."""
    drawn = random.Random(0)
    rows = ["text,label"]
    for number in range(200):
        words = GOOD if number % 2 else BAD
        rows.append(
            f"{' '.join(drawn.choices(words, k=drawn.randint(3, 9)))},{'good' if number % 2 else 'bad'}"
        )
    path = tmp_path_factory.mktemp("data") / "sentences.csv"
    path.write_text("\n".join(rows) + "\n")
    return path
