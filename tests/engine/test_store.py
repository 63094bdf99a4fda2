"""The store: a run is done only if its manifest verifies; whatever does not verify is set aside and said."""

from __future__ import annotations

import json

import pytest
from tests.engine.toy_steps import number_step, total_step

from tombola.canonical import digest
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.errors import StoreError, TombolaError
from tombola.plan.graph import Graph


@pytest.fixture
def finished(store):
    step = number_step(3)
    run(Graph((step,), outputs=(step.out("weights.safetensors"),)), store)
    return step


def test_layout_and_specification(store, finished):
    folder = store.root / finished.identity[:2] / finished.identity
    assert json.loads((folder / "spec.json").read_text()) == finished.specification
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["outputs"]) == {"value.json", "weights.safetensors"}
    assert list(store) == [finished.identity]


def test_nothing_hashed_holds_a_time_or_a_path(store, finished):
    folder = store.folder(finished.identity)
    for path in (folder / "manifest.json", folder / "spec.json"):
        assert str(store.root) not in path.read_text()
        assert "seconds" not in path.read_text()
    assert store.timing(finished.identity)[0]["seconds"] >= 0


@pytest.mark.parametrize("name", ["value.json", "weights.safetensors"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "append"])
def test_a_damaged_output_is_found_set_aside_and_redone(store, finished, name, damage):
    path = store.folder(finished.identity) / name
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-2] ^= 1
    elif damage == "truncate":
        content = content[:-1]
    else:
        content += b"x"
    path.write_bytes(bytes(content))
    fresh = Store(store.root)
    with (
        pytest.warns(UserWarning, match="will be computed again"),
        pytest.raises(StoreError, match=r"damaged|not in the store"),
    ):
        fresh.path(finished.out(name))
    assert len(list((store.root / "aside").iterdir())) == 1
    run(Graph((finished,), outputs=(finished.out(name),)), fresh)
    assert fresh.read_json(finished.out("value.json")) == {"value": 3}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 1}', '{"format": 1, "identity": "x", "outputs": {}, "environment": {}}'],
)
def test_a_damaged_manifest_is_set_aside(store, finished, text):
    (store.folder(finished.identity) / "manifest.json").write_text(text)
    with pytest.warns(UserWarning, match="damaged"):
        assert store.run(finished.identity) is None


def test_a_run_of_a_newer_version_is_not_touched(store, finished):
    path = store.folder(finished.identity) / "manifest.json"
    manifest = json.loads(path.read_text()) | {"format": 99}
    del manifest["digest"]
    path.write_text(json.dumps(manifest | {"digest": digest(manifest)}))
    with pytest.raises(TombolaError, match="newer tombola"):
        store.run(finished.identity)
    assert path.is_file()


def test_verify_hashes_everything_again(store, finished):
    assert store.verify(finished.identity) == []
    path = store.folder(finished.identity) / "value.json"
    store.path(finished.out("value.json"))
    stamp = path.stat()
    content = path.read_bytes().replace(b"3", b"4")
    path.write_bytes(content)
    import os

    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    (problem,) = store.verify(finished.identity)
    assert "value.json" in problem


def test_reading_a_dropped_output_says_what_to_do(store):
    part = number_step(8)
    run(Graph((total_step(part),)), store)
    with pytest.raises(StoreError, match="was dropped"):
        store.path(part.out("weights.safetensors"))


def test_an_unusable_folder_names_the_option(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot be used") as caught:
        Store(tmp_path / "file")
    assert "--store" in caught.value.todo


def test_a_finished_run_stays_one_at_every_moment_of_making_outputs_again(store, monkeypatch):
    """Killed before any single rename of a republication: what was finished is finished still."""
    step = number_step(5)
    run(Graph((step,)), store)
    import os

    class Killed(BaseException):
        pass

    for moment in range(4):
        count = 0
        former = os.replace

        def counting(source, target, former=former, moment=moment):
            nonlocal count
            if str(target).startswith(str(store.folder(step.identity))):
                if count == moment:
                    raise Killed
                count += 1
            former(source, target)

        monkeypatch.setattr(os, "replace", counting)
        try:
            run(Graph((), outputs=(step.out("weights.safetensors"),)), store)
        except Killed:
            monkeypatch.setattr(os, "replace", former)
            assert Store(store.root).read_json(step.out("value.json")) == {"value": 5}
        else:
            monkeypatch.setattr(os, "replace", former)
            break
    else:
        pytest.fail("never came to its end")
    assert moment == 2, "the weights and the manifest: two renames"
    assert store.path(step.out("weights.safetensors")).is_file()


def test_a_torn_line_of_timing_is_passed_over(store, finished):
    with open(store.folder(finished.identity) / "timing.jsonl", "a") as file:
        file.write('{"seconds": 1')
    assert len(store.timing(finished.identity)) == 1
