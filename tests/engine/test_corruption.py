"""Damage to any file of a store is found, said, set aside and made good to the same bytes; none passes for a result."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path

import pytest
from tests.engine.toy_steps import number_step, total_step

from tombola.engine import attempts
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.errors import StoreError, TombolaError
from tombola.plan.graph import Graph

NUMBER, OTHER = number_step(3), number_step(4)
SUM = total_step(NUMBER, OTHER)
#: The weights of NUMBER are there, those of OTHER were dropped.
GRAPH = Graph((SUM,), outputs=(NUMBER.out("weights.safetensors"),))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def delete(path: Path) -> None:
    path.unlink()


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = (flip, truncate, empty, delete, make_a_folder)


@pytest.fixture
def full(store):
    run(GRAPH, store)
    return store


def contents(store: Store) -> dict[tuple[str, str], bytes]:
    return {
        (identity, path.name): path.read_bytes()
        for identity in store
        for path in sorted(store.folder(identity).iterdir())
        if path.name != "timing.jsonl"
    }


def test_every_file_of_these_runs_is_tried(full):
    """The lists below are complete: a new kind of file must be thought of here."""
    names = {name for _, name in contents(full)}
    assert names == {"spec.json", "manifest.json", "value.json", "weights.safetensors"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["spec.json", "manifest.json", "value.json", "weights.safetensors"])
def test_found_by_verifying_set_aside_and_redone(full, name, damage):
    before = contents(full)
    damage(full.folder(NUMBER.identity) / name)
    fresh = Store(full.root)
    gone = damage is delete and name == "weights.safetensors"
    if gone:
        assert fresh.verify(NUMBER.identity) == [], "as if it had been dropped"
    else:
        with pytest.warns(UserWarning, match=r"is damaged \(.*moved to .* will be computed again"):
            (problem,) = fresh.verify(NUMBER.identity, aside=True)
        assert NUMBER.identity in problem
        assert not fresh.folder(NUMBER.identity).exists()
        assert len(list((full.root / "aside").iterdir())) == 1
    run(GRAPH, fresh)
    assert contents(fresh) == before
    assert [problem for identity in fresh for problem in fresh.verify(identity)] == []


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["spec.json", "manifest.json", "value.json", "weights.safetensors"])
def test_found_by_whoever_reads_and_redone(full, name, damage):
    """``spec.json`` decides nothing, but a run whose specification is not its own is not trusted either."""
    before = contents(full)
    damage(full.folder(NUMBER.identity) / name)
    read = "value.json" if name == "value.json" else "weights.safetensors"
    fresh = Store(full.root)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(StoreError, match="run"):
            fresh.path(NUMBER.out(read))
    gone = damage is delete and name == "weights.safetensors"
    assert ["is damaged" in str(one.message) for one in heard] == ([] if gone else [True])
    run(GRAPH, fresh)
    assert contents(fresh) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_found_by_the_step_that_reads_it_and_redone_in_the_same_run(full, damage):
    before = contents(full)
    damage(full.folder(NUMBER.identity) / "weights.safetensors")
    reading = total_step(NUMBER)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "run .* is damaged")
        assert run(GRAPH + Graph((reading,)), Store(full.root)).complete
    assert {key: content for key, content in contents(full).items() if key[0] != reading.identity} == before
    assert full.read_json(reading.out("value.json")) == {"value": 3.0}


def test_a_bit_flipped_anywhere_in_what_describes_a_run_is_found(full):
    """Also where nothing else could prove it: the hash of an output that was dropped, the environment."""
    assert not full.run(OTHER.identity).has("weights.safetensors")
    folder = full.folder(OTHER.identity)
    for name in ("manifest.json", "spec.json"):
        whole = (folder / name).read_bytes()
        for position in range(len(whole)):
            damaged = bytearray(whole)
            damaged[position] ^= 1
            (folder / name).write_bytes(bytes(damaged))
            with warnings.catch_warnings(record=True):
                warnings.simplefilter("always")
                assert Store(full.root).verify(OTHER.identity) != [], (name, position)
            if not folder.exists():
                (aside,) = (full.root / "aside").iterdir()
                aside.rename(folder)
        (folder / name).write_bytes(whole)
    assert full.verify(OTHER.identity) == []


def test_what_is_set_aside_keeps_every_copy(full):
    for number in range(3):
        truncate(full.folder(SUM.identity) / "value.json")
        with pytest.warns(UserWarning, match="damaged"):
            run(GRAPH, Store(full.root))
        assert len(list((full.root / "aside").iterdir())) == number + 1


def test_a_disk_that_cannot_read_is_told_by_verifying(full, monkeypatch):
    def failing(path: Path) -> str:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("tombola.files.sha256_of", failing)
    assert full.verify(SUM.identity) == [f"{SUM.identity}: value.json: Input/output error"]


def test_what_cannot_be_set_aside_is_a_clear_error(full, monkeypatch):
    truncate(full.folder(SUM.identity) / "value.json")

    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(StoreError, match="cannot be set aside"):
        run(GRAPH, Store(full.root))


def test_runs_of_before_the_digest_are_read_as_they_are(full):
    path = full.folder(SUM.identity) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["digest"]
    path.write_text(json.dumps(manifest))
    assert Store(full.root).verify(SUM.identity) == []


# -- beside the runs --------------------------------------------------------------------------------------------


def beside(root: Path) -> list[Path]:
    """A file in every place that is no run: leftovers of a dead process in leases and readers."""
    for part in ("leases", "readers"):
        (root / part / "dead").write_text('{"host": "h", "pid": 1}\nsome thing\n')
        os.utime(root / part / "dead", (0, 0))
    (root / "index" / "rates.jsonl").write_text('{"key": "k", "rate": 1.0}\n')
    (root / "substitutes" / f"{'0' * 64}.json").write_text('{"micro_batch": 1}\n')
    return [
        root / "attempts.jsonl",
        root / "index" / "rates.jsonl",
        root / "leases" / "dead",
        root / "readers" / "dead",
        root / "substitutes" / f"{'0' * 64}.json",
        *root.glob("??/*/timing.jsonl"),
    ]


@pytest.mark.parametrize("damage", [flip, truncate, empty, delete])
def test_damage_beside_the_runs_costs_no_run(full, toys, damage):
    before = contents(full)
    for path in beside(full.root):
        damage(path)
    toys.clear()
    run(GRAPH, Store(full.root))
    assert toys == []
    more = total_step(NUMBER)
    run(GRAPH + Graph((more,)), Store(full.root))
    assert {key: content for key, content in contents(full).items() if key[0] != more.identity} == before
    assert attempts.read(full.root)[-1]["event"] == "finished"


@pytest.mark.parametrize("part", ["running", "leases", "readers", "substitutes", "index", "attempts.jsonl"])
@pytest.mark.parametrize("when", ["before it is opened", "while it is open"])
def test_places_beside_the_runs_come_back(full, part, when):
    beside(full.root)
    opened = Store(full.root)
    path = full.root / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    run(GRAPH + Graph((total_step(OTHER),)), opened if when == "while it is open" else Store(full.root))
    assert full.read_json(total_step(OTHER).out("value.json")) == {"value": 4.0}


@pytest.mark.parametrize("part", ["running", "leases", "readers", "substitutes", "index", "attempts.jsonl"])
def test_places_that_cannot_be_what_they_must_are_a_clear_error(full, part):
    path = full.root / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.mkdir() if part == "attempts.jsonl" else path.write_text("not a folder")
    with pytest.raises((TombolaError, OSError)) as error:
        run(GRAPH + Graph((total_step(OTHER),)), Store(full.root))
    assert str(path) in str(error.value) or str(full.root) in str(error.value)
