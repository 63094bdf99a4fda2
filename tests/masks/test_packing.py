"""Masks on disk: round trips, size against the entropy bound, and refusals of damaged or malicious files."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tombola.errors import CorruptArtifact
from tombola.masks import packing
from tombola.masks.packing import load_mask, save_mask
from tombola.masks.weight_mask import WeightMask


def random_mask(shape: tuple[int, ...], sparsity: float, seed: int, spread: float = 0.5) -> torch.Tensor:
    """Every row has a density of its own: log-odds spread normally, as in real encoders."""
    draw = np.random.default_rng(seed)
    odds = np.exp(draw.normal(np.log((1 - sparsity) / sparsity), spread, size=(shape[0], 1)))
    return torch.from_numpy(draw.random((shape[0], int(np.prod(shape[1:])))) < odds / (1 + odds)).reshape(
        shape
    )


def entropy_bytes(mask: WeightMask) -> float:
    """Σ over rows of H(density of the row)·columns / 8: what no code that knows the densities can beat."""
    total = 0.0
    for tensor in mask.values():
        density = tensor.double().mean(dim=1).clamp(1e-12, 1 - 1e-12)
        entropy = -(density * density.log2() + (1 - density) * (1 - density).log2())
        total += float(entropy.sum()) * tensor.shape[1] / 8
    return total


@pytest.mark.parametrize("sparsity", [0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])
def test_size_against_the_entropy_of_the_rows(sparsity: float, tmp_path: Path) -> None:
    """DESIGN 7: at most 1.08 times the bound, everything in the file counted."""
    mask = WeightMask(
        {
            "layer.0.intermediate": random_mask((1536, 384), sparsity, seed=1),
            "layer.0.output": random_mask((384, 1536), sparsity, seed=2),
            "layer.0.query": random_mask((384, 384), sparsity, seed=3, spread=1.0),
        }
    )
    save_mask(tmp_path / "mask.safetensors", mask)
    assert (tmp_path / "mask.safetensors").stat().st_size <= 1.08 * entropy_bytes(mask)
    assert load_mask(tmp_path / "mask.safetensors") == mask


def test_a_mask_with_a_pattern_costs_next_to_nothing(tmp_path: Path) -> None:
    two_of_four = torch.tensor([True, True, False, False]).repeat(256, 64)
    mask = WeightMask({"pattern": two_of_four, "all": torch.ones(256, 256, dtype=torch.bool)})
    save_mask(tmp_path / "mask.safetensors", mask)
    assert (tmp_path / "mask.safetensors").stat().st_size < 700
    assert load_mask(tmp_path / "mask.safetensors") == mask


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_round_trip_and_equal_bytes(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)
    entries = {
        name: random_mask(data.draw(shapes), data.draw(st.floats(0.01, 0.99)), data.draw(st.integers(0, 99)))
        for name in data.draw(st.sets(st.sampled_from(["a", "b.c", "layer.0.w", "z_9.weight"]), min_size=1))
    }
    mask = WeightMask(entries)
    folder = tmp_path_factory.mktemp("mask")
    save_mask(folder / "one", mask)
    save_mask(folder / "two", WeightMask(dict(reversed(entries.items()))))
    assert load_mask(folder / "one") == mask
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


# --- files of strangers -------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A mask of which one tensor is stored as bits and one as gaps."""
    mask = WeightMask(
        {"dense": torch.tensor([[True, False] * 200] * 9), "sparse": random_mask((50, 80), 0.9, seed=4)}
    )
    save_mask(tmp_path / "mask.safetensors", mask)
    return tmp_path / "mask.safetensors"


def table_of(path: Path) -> dict[str, Any]:
    return json.loads(zstandard.decompress(load_file(path)["table"].numpy().tobytes()))


def rewrite(path: Path, *, version: str = "1", **parts: Any) -> None:
    """The file again, with some parts replaced (bytes, tensors, or a table)."""
    tensors = load_file(path)
    for name, part in parts.items():
        if part is None:
            tensors.pop(name)
            continue
        if isinstance(part, dict):
            part = zstandard.compress(json.dumps(part).encode())
        tensors[name] = (
            torch.frombuffer(bytearray(part), dtype=torch.uint8) if isinstance(part, bytes) else part
        )
    save_file(tensors, path, metadata={"tombola_mask_format": version})


def refused(path: Path, reason: str) -> None:
    with pytest.raises(CorruptArtifact, match=reason) as caught:
        load_mask(path)
    assert caught.value.where == str(path)


def test_both_encodings_are_in_use(saved: Path) -> None:
    tensors = table_of(saved)["tensors"]
    assert (tensors["dense"]["encoding"], tensors["sparse"]["encoding"]) == ("bits", "gaps")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_flipped_bit_is_never_another_mask(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("mask") / "mask.safetensors"
    mask = WeightMask({"a": random_mask((8, 20), 0.8, seed=1), "b": random_mask((4, 4), 0.5, seed=2)})
    save_mask(path, mask)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with contextlib.suppress(CorruptArtifact):
        assert load_mask(path) == mask


def test_truncated_missing_and_foreign(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    for length in range(0, len(content), 7):
        saved.write_bytes(content[:length])
        refused(saved, "short|header|readable")
    refused(tmp_path / "absent", "missing")
    save_file({"w": torch.zeros(2)}, saved)
    refused(saved, "not a readable safetensors file of a mask")
    save_file({"w": torch.zeros(2)}, saved, metadata={"tombola_mask_format": "1"})
    refused(saved, "it holds")


def test_huge_header(saved: Path) -> None:
    saved.write_bytes(struct.pack("<Q", 2**40) + saved.read_bytes()[8:])
    refused(saved, "announces a header")


def test_newer_format(saved: Path) -> None:
    rewrite(saved, version="2")
    refused(saved, "newer tombola, upgrade")


def test_parts_of_another_kind(saved: Path) -> None:
    rewrite(saved, extra=b"x")
    refused(saved, "it holds")
    rewrite(saved, extra=None, codes=torch.zeros(3))
    refused(saved, "not bytes")


def test_bombs_do_not_go_off(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that announces another size than its table says is refused before it is unpacked."""
    monkeypatch.setattr(packing, "LARGEST_TABLE", 10_000)
    original = load_file(saved)
    bomb = zstandard.compress(bytes(50_000_000))
    rewrite(saved, table=bomb)
    refused(saved, "announces 50000000 bytes")
    rewrite(saved, table=original["table"], classes=bomb)
    refused(saved, "announces 50000000 bytes, 50 are due")
    monkeypatch.setattr(packing, "LARGEST_MASK", 1_000)
    rewrite(saved, classes=original["classes"])
    refused(saved, "announces more than 1,000 entries|makes no sense")


def test_a_frame_that_hides_its_size(saved: Path) -> None:
    hidden = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(50))
    rewrite(saved, classes=hidden)
    refused(saved, "announces -1 bytes")


def test_trailing_bytes(saved: Path) -> None:
    original = load_file(saved)
    rewrite(saved, codes=original["codes"].numpy().tobytes() + b"\x00")
    refused(saved, "follow the last tensor")
    rewrite(saved, codes=original["codes"].numpy().tobytes()[:-1])
    refused(saved, "end before 'sparse'")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shape": [50, 81]}, "digest|due"),
        ({"shape": [51, 80]}, "due"),
        ({"shape": [80, 50]}, "due"),
        ({"shape": [-50, -80]}, "makes no sense"),
        ({"shape": []}, "makes no sense"),
        ({"shape": [50, True]}, "makes no sense"),
        ({"shape": [2**30, 2**30]}, "more than"),
        ({"shape": "50"}, "makes no sense"),
        ({"kept": 3}, "keeps"),
        ({"kept": None}, "makes no sense"),
        ({"encoding": "pickle"}, "makes no sense"),
        ({"encoding": ["bits"]}, "makes no sense"),
        ({"lengths": [1, 2]}, "makes no sense"),
        ({"lengths": [1, 2, 3, 4]}, "sparse"),
        ({"extra": 1}, "makes no sense"),
    ],
)
def test_a_table_that_lies(saved: Path, change: dict[str, Any], reason: str) -> None:
    table = table_of(saved)
    table["tensors"]["sparse"] |= change
    rewrite(saved, table=table)
    refused(saved, reason)


def test_names_that_are_no_parameters(saved: Path) -> None:
    table = table_of(saved)
    table["tensors"]["../sparse"] = table["tensors"].pop("sparse")
    rewrite(saved, table=table)
    refused(saved, "this is no parameter name|codes|'../sparse'|'dense'")


@pytest.mark.parametrize(
    "table", [b"", b"[", b"[]", b"{}", b'{"digest":"","tensors":[]}', b"[" * 100_000, b"\xff"]
)
def test_a_table_that_is_none(saved: Path, table: bytes) -> None:
    rewrite(saved, table=zstandard.compress(table))
    refused(saved, "table")
