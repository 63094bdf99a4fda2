"""Files that are never half there, and what is read of files that are."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tombola import files
from tombola.errors import CorruptArtifact


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "value.json"
    files.write_json(path, {"b": 1, "a": [1.5, None, "ä"]})
    assert path.read_text() == '{\n  "a": [\n    1.5,\n    null,\n    "ä"\n  ],\n  "b": 1\n}\n'

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_json(path, {"c": 2})
    assert json.loads(path.read_text()) == {"b": 1, "a": [1.5, None, "ä"]}
    assert [one.name for one in path.parent.iterdir()] == ["value.json"]


def test_the_first_error_is_told_even_if_nothing_can_be_tidied_up(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(OSError, match="No space"):
        files.write_bytes(tmp_path / "file", b"content")


def test_numbers_that_json_has_not_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "value.json", {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not valid JSON"),
        (b'{"a": ', "not valid JSON"),
        (b"\xff\xfe\xfa", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"9" * 5000, "not valid JSON"),
    ],
)
def test_damaged_json_is_told_with_its_place(tmp_path, content, told):
    path = tmp_path / "value.json"
    path.write_bytes(content)
    with pytest.raises(CorruptArtifact, match=told) as error:
        files.read_json(path)
    assert error.value.where == str(path)


def test_absent_json_folders_and_giants_are_told(tmp_path, monkeypatch):
    with pytest.raises(CorruptArtifact, match=r"value\.json is missing"):
        files.read_json(tmp_path / "value.json")
    (tmp_path / "file").touch()
    with pytest.raises(CorruptArtifact, match=r"value\.json is missing"):
        files.read_json(tmp_path / "file" / "value.json")
    with pytest.raises(CorruptArtifact, match="is a folder"):
        files.read_json(tmp_path)
    monkeypatch.setattr(files, "LARGEST_JSON", 3)
    (tmp_path / "file").write_text("[1, 2]")
    with pytest.raises(CorruptArtifact, match="larger than 3 bytes"):
        files.read_json(tmp_path / "file")


def test_lines_are_appended_whole_and_a_torn_one_spoils_no_other(tmp_path):
    path = tmp_path / "lines.jsonl"
    assert files.json_lines(path) == []
    files.append_line(path, '{"number": 1}')
    with open(path, "ab") as file:
        file.write(b'{"number": 2')
    files.append_line(path, '{"number": 3}')
    with open(path, "ab") as file:
        file.write(b'\xff\n7\n\n["no object"]\n' + b"[" * 100_000)
    files.append_line(path, '{"number": "\u2028"}')
    assert files.json_lines(path) == [{"number": 1}, {"number": 3}, {"number": "\u2028"}]


def test_tensors_come_back_and_equal_ones_are_equal_bytes(tmp_path):
    tensors = {"b": torch.arange(6.0).reshape(2, 3).T, "a": torch.ones(2, dtype=torch.bfloat16)}
    files.write_tensors(tmp_path / "one.safetensors", tensors, {"format": "1"})
    files.write_tensors(tmp_path / "two.safetensors", dict(sorted(tensors.items())), {"format": "1"})
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    again = files.read_tensors(tmp_path / "one.safetensors")
    assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x08\x00", "too short"),
        (struct.pack("<Q", 1 << 40) + b"{}", "announces a header"),
        (struct.pack("<Q", 3) + b"{}", "announces a header"),
        (struct.pack("<Q", 2) + b"[]", "not a readable safetensors file"),
        (struct.pack("<Q", 2) + b"\xff\xff", "not a readable safetensors file"),
    ],
)
def test_damaged_tensor_files_are_refused_before_memory_is_taken(tmp_path, content, told):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with pytest.raises(CorruptArtifact, match=told):
        files.read_tensors(path)
    with pytest.raises(CorruptArtifact, match="is missing"):
        files.read_tensors(tmp_path / "none.safetensors")


def test_files_alone_need_no_torch():
    code = "import sys; from tombola import files; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
