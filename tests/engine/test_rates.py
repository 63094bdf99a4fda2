"""The index of rates: deleted or damaged, it comes back from the runs' own timings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.engine import toy_steps

from tombola.engine import rates
from tombola.engine.inline import run
from tombola.plan.graph import Graph
from tombola.plan.step import Step
from tombola.plan.steps import StepKind


def timed(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    work.write_json("metrics.json", {})
    work.timing.update({"training_seconds": parameters["model"] * 2.0, "optimizer_steps": 4})


def training(model: int, seed: int = 0) -> Step:
    return Step("train", 1, {"model": model, "task": "t", "recipe": {}, "numerics": {}, "seed": seed})


@pytest.fixture
def trained(store, monkeypatch):
    monkeypatch.setitem(toy_steps.TOYS, "train", StepKind(1, timed))
    run(Graph((training(1), training(2))), store)
    return store


EXPECTED = {rates.key_of(training(model).parameters): model / 2 for model in (1, 2)}


def test_what_trainings_took_is_known_whatever_their_seed(trained):
    assert rates.known(trained) == EXPECTED
    assert rates.key_of(training(1, seed=7).parameters) in EXPECTED


def test_nothing_is_known_of_an_empty_store(store):
    assert rates.known(store) == {}


@pytest.mark.parametrize(
    "damage", [None, b"", b'{"key": "x", "ra', b"\xff\xfe", b"7\n", b'{"key": "x", "rate": "fast"}\n']
)
def test_an_index_that_is_not_whole_comes_back(trained, damage):
    path = trained.root / "index" / "rates.jsonl"
    assert rates.known(trained) == EXPECTED
    path.unlink() if damage is None else path.write_bytes(damage)
    assert rates.known(trained) == EXPECTED
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] != []


def test_an_index_that_was_deleted_comes_back_with_what_was_in_it(trained):
    rates.known(trained)
    (trained.root / "index" / "rates.jsonl").unlink()
    run(Graph((training(3),)), trained)
    assert rates.known(trained) == EXPECTED | {rates.key_of(training(3).parameters): 1.5}


def test_what_ends_later_joins_the_index(trained):
    rates.known(trained)
    before = (trained.root / "index" / "rates.jsonl").stat().st_ino
    run(Graph((training(3),)), trained)
    assert (trained.root / "index" / "rates.jsonl").stat().st_ino == before, "appended, not made again"
    assert len(rates.known(trained)) == 3


def test_a_deleted_folder_of_indices_comes_back_too(trained):
    (trained.root / "index").rmdir()
    assert rates.known(trained) == EXPECTED


def test_an_index_that_cannot_be_written_is_no_harm(trained, monkeypatch):
    from tombola import files

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_bytes", full)
    monkeypatch.setattr(files, "append_line", full)
    assert rates.known(trained) == EXPECTED
    rates.note(trained.root, "train", training(3).parameters, {"training_seconds": 1, "optimizer_steps": 1})


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"7\n", b'{"optimizer_steps": 4}\n', b"half"])
def test_damaged_timings_of_a_run_are_passed_over(trained, content):
    (trained.folder(training(1).identity) / "timing.jsonl").write_bytes(content)
    assert rates.known(trained) == {rates.key_of(training(2).parameters): 1.0}
