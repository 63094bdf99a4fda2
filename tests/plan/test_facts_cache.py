"""Facts are remembered by the stamps of files, made anew when one changes, and never trusted when damaged."""

from __future__ import annotations

import json
import shutil

import pytest

from tombola.plan import materials
from tombola.plan.facts_cache import remembered, stamps_of
from tombola.plan.materials import model_facts, task_facts
from tombola.tasks.task import DataOptions


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOMBOLA_CACHE", str(tmp_path / "cache"))
    for cached in ("_source", "_tokenizer_fingerprint", "_config_fingerprint", "_task_data"):
        getattr(materials, cached).cache_clear()
    return tmp_path / "cache" / "facts"


@pytest.fixture
def own(tmp_path, sentences):
    """Somebody's own copy of model-less data, which a test may change."""
    path = tmp_path / "own.csv"
    shutil.copy(sentences, path)
    return DataOptions(data=path, text="text", label="label")


def test_a_fact_is_made_once(tmp_path):
    made = []
    path = tmp_path / "file"
    path.write_text("one")

    def fact():
        made.append(1)
        return {"value": 1}

    for _ in range(3):
        assert remembered({"fact": "x"}, stamps_of([path]), fact) == {"value": 1}
    assert len(made) == 1
    path.write_text("another")
    remembered({"fact": "x"}, stamps_of([path]), fact)
    remembered({"fact": "y"}, stamps_of([path]), fact)
    assert len(made) == 3


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"fact": {"value": 2}, "digest": "x"}'])
def test_a_damaged_fact_is_made_again(cache, damage):
    remembered({"fact": "x"}, [], lambda: {"value": 1})
    (path,) = cache.iterdir()
    path.write_text(damage)
    assert remembered({"fact": "x"}, [], lambda: {"value": 3}) == {"value": 3}
    assert json.loads(path.read_text())["fact"] == {"value": 3}


def test_a_cache_that_cannot_be_written_is_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TOMBOLA_CACHE", str(tmp_path / "file"))
    assert remembered({"fact": "x"}, [], lambda: {"value": 1}) == {"value": 1}


def test_the_facts_of_a_task_are_those_of_its_records(own, monkeypatch):
    first = task_facts(None, own)
    monkeypatch.setattr(materials, "_loaded", lambda source: pytest.fail("read again"))
    assert task_facts(None, own) == first


def test_changed_records_are_another_task(own):
    first = task_facts(None, own)
    assert own.data is not None
    own.data.write_text(own.data.read_text() + "good good good,good\n")
    assert task_facts(None, own).fingerprint != first.fingerprint


def test_the_facts_of_a_model_are_those_of_its_files(tiny_bert, own, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_bert, folder)
    task = task_facts(None, own)
    first = model_facts(str(folder), None, task)
    with monkeypatch.context() as patched:
        patched.setattr(materials, "_read_model", lambda *_: pytest.fail("read again"))
        again = model_facts(str(folder), None, task)
        kept = model_facts(str(folder), None, task, keep_pooler=True)
    assert again == first
    assert set(first.shapes) - set(kept.shapes) == {"pooler.dense.weight"}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_dropout_prob": 0.3}))
    materials._config_fingerprint.cache_clear()
    assert model_facts(str(folder), None, task).config != first.config
