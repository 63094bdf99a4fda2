from __future__ import annotations

import pytest
from tests.engine import toy_steps

from tombola.engine import performing
from tombola.engine.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """The toy steps instead of the real ones, and an empty list of what ran."""
    monkeypatch.setattr(performing, "STEPS", toy_steps.TOYS)
    toy_steps.RUNS.clear()
    return toy_steps.RUNS
