"""The list of what was begun: append-only, and no damage to it ever stops or hides anything else."""

from __future__ import annotations

import json
import os

import pytest
from tests.engine.toy_steps import number_step

from tombola.engine import attempts
from tombola.engine.inline import run
from tombola.plan.graph import Graph
from tombola.plan.step import Step


def events(store):
    return [(entry["event"], entry["run"][:1]) for entry in attempts.read(store.root)]


def test_lines_come_back_as_they_were_noted(store):
    attempts.note(store.root, "began", "a" * 64, label="line\u2028one\u0085 – \ud800\n")
    attempts.note(store.root, "finished", "a" * 64, seconds=1.5)
    first, second = attempts.read(store.root)
    assert first["label"] == "line\u2028one\u0085 – \ud800\n"
    assert second["seconds"] == 1.5
    assert first["pid"] == os.getpid()


def test_none_are_none(store):
    assert attempts.read(store.root) == []


@pytest.mark.parametrize("damage", ['{"event": "beg', "7\n", "\x00\x00", '"text"\n', "[1]\n"])
def test_a_line_that_is_damaged_hides_no_other(store, damage):
    attempts.note(store.root, "began", "a" * 64)
    with open(store.root / "attempts.jsonl", "a") as file:
        file.write(damage)
    attempts.note(store.root, "began", "b" * 64)
    assert events(store) == [("began", "a"), ("began", "b")]


def test_a_part_taken_by_a_full_disk_is_written_on(store, monkeypatch):
    former = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: former(descriptor, content[:9]))
    attempts.note(store.root, "began", "a" * 64)
    assert events(store) == [("began", "a")]


def test_what_cannot_be_noted_as_begun_is_not_begun(store, toys):
    (store.root / "attempts.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        run(Graph((number_step(1),)), store)
    assert toys == []
    (store.root / "attempts.jsonl").rmdir()
    run(Graph((number_step(1),)), store)
    assert toys == ["number 1"]


def test_what_is_finished_is_finished_whether_it_can_be_noted_or_not(store, toys, monkeypatch):
    former = attempts.note

    def full(root, event, identity, **more):
        if event != "began":
            raise OSError(28, "No space left on device")
        former(root, event, identity, **more)

    monkeypatch.setattr(attempts, "note", full)
    assert run(Graph((number_step(1),)), store).ran == 1
    assert toys == ["number 1"]
    with pytest.raises(KeyError, match="no_such_step"):
        run(Graph((Step("no_such_step", 1, {}),)), store)


def test_a_failure_is_noted_with_its_reason(store):
    with pytest.raises(KeyError):
        run(Graph((Step("no_such_step", 1, {}),)), store)
    last = [json.loads(line) for line in (store.root / "attempts.jsonl").read_text().splitlines()][-1]
    assert last["event"] == "failed"
    assert "no_such_step" in last["error"]
