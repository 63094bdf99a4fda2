"""Engines chosen on the command line: what cannot be meant is refused, and all give the same ticket."""

from __future__ import annotations

import json

import pytest
from tests.test_journey import command, find_arguments
from typer.testing import CliRunner

from tombola.cli.app import app
from tombola.cli.engines import engine_of, threads_for
from tombola.engine.store import Store
from tombola.errors import TombolaError, UsageError
from tombola.plan.graph import Graph
from tombola.plan.step import Step
from tombola.studies.existence import ExistenceRecipe


@pytest.mark.parametrize("verb", ["find", "verify"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "lokal"), "did you mean 'local'"),
        (("--workers", "2"), "choose --engine local"),
        (("--engine", "local", "--workers", "0"), "0 workers"),
        (("--engine", "local", "--address", "auto"), "add --engine ray"),
    ],
)
def test_mistakes_are_told_before_anything_is_read(verb, arguments, said):
    with pytest.raises(TombolaError) as caught:
        CliRunner().invoke(app, [verb, "nowhere", *arguments], catch_exceptions=False)
    assert said in str(caught.value)


def test_several_workers_take_one_thread_each_unless_told_otherwise():
    assert threads_for("local", None) == 1
    assert threads_for("local", 2) == 2
    assert threads_for("inline", None) is None


def on_gpu() -> Graph:
    return Graph((Step("train", 3, {"numerics": {"threads": 1, "device": "cuda"}}),))


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_what_is_planned_for_a_gpu_is_refused_here_and_not_once_a_step(engine, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UsageError, match="none here") as caught:
        engine_of(engine, None, None)(on_gpu(), Store(tmp_path))
    assert "numerics.device=cpu" in str(caught.value)


def test_a_study_for_a_gpu_can_be_planned_without_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    recipe = ExistenceRecipe(study="existence", model="m", tasks={"cola": None}, numerics={"device": "cuda"})
    assert recipe.numerics_as_told().device == "cuda"


@pytest.mark.slow
def test_workers_find_the_very_ticket_that_one_process_finds(tiny_bert, sentences, tmp_path):
    found = {}
    for engine, more in (("inline", ()), ("local", ("--workers", 2))):
        arguments = find_arguments(tiny_bert, sentences, tmp_path / engine, "--seeds", 2, "--json")
        done = command(*arguments, "--engine", engine, *more, store=tmp_path / f"store-{engine}")
        assert done.returncode == 0, done.stderr
        found[engine] = json.loads(done.stdout)[0]
    assert found["inline"]["identity"] == found["local"]["identity"]
    assert found["inline"]["results"]["scores"] == found["local"]["results"]["scores"]
    files = {
        engine: {
            path.name: path.read_bytes() for path in (tmp_path / engine).iterdir() if path.suffix != ".md"
        }
        for engine in found
    }
    assert files["inline"]["mask.safetensors"] == files["local"]["mask.safetensors"]
