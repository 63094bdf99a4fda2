"""``tombola store``: what it lists and shows, what it finds damaged, what it deletes and what it never touches."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.engine import toy_steps
from tests.engine.toy_steps import number_step, total_step
from typer.testing import CliRunner

from tombola.cli.app import app
from tombola.cli.store import size
from tombola.engine import performing
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.errors import UsageError
from tombola.plan.graph import Graph

PART, OTHER = number_step(2), number_step(3)
WHOLE = total_step(PART, OTHER)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Three finished runs; the weights of one are still there."""
    monkeypatch.setattr(performing, "STEPS", toy_steps.TOYS)
    run(Graph((WHOLE,), (PART.out("weights.safetensors"),)), Store(tmp_path / "store"))
    return tmp_path / "store"


def store(root, *arguments):
    return CliRunner().invoke(app, ["store", *arguments, "--store", str(root)], catch_exceptions=False)


def test_ls_names_every_run_with_what_it_was(root):
    done = store(root, "ls")
    assert "3 finished, 0 running, 0 interrupted, 0 set aside" in done.output
    for step in (PART, OTHER, WHOLE):
        assert step.identity[:12] in done.output
    told = json.loads(store(root, "ls", "--json", "--kind", "total").stdout)
    assert [entry["run"] for entry in told["runs"]] == [WHOLE.identity]
    assert told["bytes"] > 0


def test_ls_tells_what_is_running_and_what_was_interrupted(root):
    held = Store(root).lease("f" * 64)
    assert held is not None
    Store(root).scratch("e" * 64).mkdir()
    told = json.loads(store(root, "ls", "--json").stdout)
    held.release()
    assert (told["running"], told["interrupted"]) == (["f" * 64], ["e" * 64])


def test_show_takes_the_first_digits(root):
    told = json.loads(store(root, "show", WHOLE.identity[:10], "--json").stdout)
    assert told["run"] == WHOLE.identity
    assert told["specification"] == WHOLE.specification
    assert [entry["event"] for entry in told["attempts"]] == ["began", "finished"]
    dropped = json.loads(store(root, "show", OTHER.identity, "--json").stdout)
    assert dropped["outputs"]["weights.safetensors"]["here"] is False
    assert WHOLE.identity in store(root, "show", WHOLE.identity[:10]).stdout


def test_show_of_no_run_or_of_several_says_what_to_do(root):
    with pytest.raises(UsageError, match="no run begins with zz"):
        store(root, "show", "zz")
    with pytest.raises(UsageError, match="3 runs begin with"):
        store(root, "show", "")


@pytest.mark.parametrize("verb", [("ls",), ("show", "ab"), ("verify",), ("gc",), ("mirror", "mlflow:x")])
def test_looking_at_a_folder_makes_no_store_of_it(tmp_path, verb):
    (tmp_path / "notes.txt").write_text("not a store")
    for place in (tmp_path, tmp_path / "mistyped"):
        with pytest.raises(UsageError, match="there is no store here"):
            store(place, *verb)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_store_may_lack_what_comes_back(root):
    shutil.rmtree(root / "index")
    assert "3 finished" in store(root, "ls").output


def test_verify_answers_by_its_exit_status_and_sets_aside(root):
    assert store(root, "verify").exit_code == 0
    value = Store(root).folder(WHOLE.identity) / "value.json"
    value.write_bytes(value.read_bytes().replace(b"5", b"6"))
    done = store(root, "verify")
    assert done.exit_code == 1
    assert "value.json" in done.stderr
    assert "1 damaged" in done.stdout
    assert not Store(root).folder(WHOLE.identity).exists()
    assert store(root, "verify").exit_code == 0, "what is left is whole"
    run(Graph((WHOLE,)), Store(root))
    assert Store(root).read_json(WHOLE.out("value.json")) == {"value": 5.0}


def test_verify_of_one_run_leaves_the_others_alone(root):
    for step in (WHOLE, OTHER):
        (Store(root).folder(step.identity) / "value.json").write_text("{}")
    done = store(root, "verify", OTHER.identity[:12], "--json")
    assert list(json.loads(done.stdout)["damaged"]) == [OTHER.identity]
    assert Store(root).folder(WHOLE.identity).exists()


def test_gc_drops_weights_and_never_results(root):
    weights = Store(root).folder(PART.identity) / "weights.safetensors"
    assert weights.is_file()
    dry = json.loads(store(root, "gc", "--dry-run", "--json").stdout)
    assert weights.is_file()
    swept = json.loads(store(root, "gc", "--json").stdout)
    assert not weights.exists()
    assert swept["dropped"] == dry["dropped"] == [f"{PART.identity}/weights.safetensors"]
    assert swept["bytes"] == dry["bytes"] > 0
    for step in (PART, OTHER, WHOLE):
        assert Store(root).is_there(step.identity)


def test_gc_keeps_checkpoints_and_what_was_set_aside_unless_asked(root):
    opened = Store(root)
    (opened.scratch("e" * 64) / "checkpoints").mkdir(parents=True)
    with pytest.warns(UserWarning, match="will be computed again"):
        opened.set_aside(OTHER.identity, "for a test")
    store(root, "gc")
    assert opened.scratch("e" * 64).exists()
    assert list((root / "aside").iterdir())
    store(root, "gc", "--checkpoints", "--aside")
    assert not opened.scratch("e" * 64).exists()
    assert not list((root / "aside").iterdir())


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1_250_000, "1.2 MB"), (3e12, "3.0 TB")]
)
def test_sizes(count, text):
    assert size(int(count)) == text
