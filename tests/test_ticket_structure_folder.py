"""A structured ticket's folder: what is written is what is read, and what was tampered with is refused."""

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tickets import (
    TINY_SIZES,
    change,
    name_again,
    structured_ticket,
    tiny_latency,
    tiny_mask,
    tiny_structure,
    tiny_ticket,
)

from tombola.errors import CorruptArtifact, TombolaError
from tombola.files import write_json
from tombola.masks.packing import save_mask
from tombola.masks.structure_mask import StructureMask
from tombola.ticket import Ticket

GOLDEN = Path(__file__).parent / "data" / "golden_structured_ticket_v1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return structured_ticket().save_pretrained(tmp_path / "ticket")


def refused(folder: Path, reason: str, where: str = "") -> CorruptArtifact:
    with pytest.raises(CorruptArtifact, match=reason) as caught:
        Ticket.from_pretrained(folder)
    assert where in caught.value.where
    return caught.value


def test_round_trip(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"ticket.json", "structure.json", "README.md"}
    loaded = Ticket.from_pretrained(folder)
    assert loaded == structured_ticket()
    assert loaded.structure == tiny_structure()
    assert loaded.remaining_weight == 1 - 512 / 2000


def test_equal_tickets_give_equal_bytes(folder: Path, tmp_path: Path) -> None:
    other = structured_ticket().save_pretrained(tmp_path / "other")
    for path in folder.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes()


def test_the_golden_structured_ticket_goes_on_loading() -> None:
    """Made by the first version that had them; every later one must read it, as the same ticket."""
    assert Ticket.from_pretrained(GOLDEN) == structured_ticket()


def test_what_stands_in_the_files(folder: Path) -> None:
    described = json.loads((folder / "ticket.json").read_text())
    assert described["format"] == 1
    assert described["mask"] == structured_ticket().amount
    assert described["model"]["sizes"] == TINY_SIZES
    layers = json.loads((folder / "structure.json").read_text())["layers"]
    assert [layer["heads"] for layer in layers] == ["1101", "1111", "0001"]
    assert [layer["ffn"] for layer in layers] == [True, False, True]


def test_one_kind_replaces_the_other(folder: Path) -> None:
    tiny_ticket().save_pretrained(folder, force=True)
    assert {path.name for path in folder.iterdir()} == {"ticket.json", "mask.safetensors", "README.md"}
    structured_ticket().save_pretrained(folder, force=True)
    assert Ticket.from_pretrained(folder) == structured_ticket()


# --- damaged, tampered, foreign, malicious -----------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_change_of_any_file_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A TombolaError or the same ticket; never another exception, never another mask."""
    folder = tmp_path_factory.mktemp("ticket") / "it"
    shutil.copytree(GOLDEN, folder)
    name = data.draw(st.sampled_from(sorted(os.listdir(folder))))
    content = bytearray((folder / name).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["flip", "truncate", "insert", "overwrite", "remove"])):
        case "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        case "truncate":
            del content[at:]
        case "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=9))
        case "overwrite":
            piece = data.draw(
                st.binary(min_size=1, max_size=9) | st.sampled_from([b"null", b"[[[", b"1e999"])
            )
            content[at : at + len(piece)] = piece
        case "remove":
            del content[at : at + data.draw(st.integers(1, 40))]
    (folder / name).write_bytes(content)
    if name != "ticket.json" and data.draw(st.booleans()):
        name_again(folder, name)  # on purpose: the table of files is mended too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            loaded = Ticket.from_pretrained(folder)
        except TombolaError:
            return
    assert loaded == structured_ticket()
    assert loaded.structure == tiny_structure()


def test_numbers_that_do_not_follow_are_refused(folder: Path) -> None:
    edits: list[Callable[[dict[str, Any]], object]] = [
        lambda d: d["mask"].update(remaining_weight=0.5),
        lambda d: d["mask"].update(remaining_of_encoder=0.744),
        lambda d: d["mask"]["heads"].update(removed=5),
        lambda d: d["mask"]["ffns"].update(kept=1),
        lambda d: d["mask"].update(layers=2),
        lambda d: d["mask"].update(digest="0" * 64),
        lambda d: d["mask"].pop("heads"),
        lambda d: d["mask"].update(sparsity=0.3),
        lambda d: d["model"]["sizes"].update(parameters=4000),
        lambda d: d["model"]["sizes"].update(heads=[4, 4]),
        lambda d: d["model"]["sizes"].update(hidden="8"),
        lambda d: d["model"].pop("sizes"),
        lambda d: d["results"]["levels"].reverse(),
        lambda d: d["results"]["rest_summary"]["ticket"].update(mean=99.0),
        lambda d: d.update(identity="0" * 64),
        lambda d: d.update(start={"kind": "rewound", "step": 3}),
    ]
    before = (folder / "ticket.json").read_bytes()
    for edit in edits:
        change(folder, edit)
        refused(folder, "does not describe|no possible ticket", "ticket.json")
        (folder / "ticket.json").write_bytes(before)
    Ticket.from_pretrained(folder)


def test_another_structure_with_its_own_right_hash(folder: Path) -> None:
    """Somebody swaps the mask and mends the table of files: the identity tells."""
    write_json(folder / "structure.json", StructureMask.full((4, 4, 4)).to_json())
    name_again(folder, "structure.json")
    refused(folder, "does not describe the ticket", "ticket.json")


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (~StructureMask.full((4, 4, 4)), "removes all"),
        (StructureMask.full((4, 4)), "about 2 layers"),
        (StructureMask.full((4, 4, 5)), "about 5 heads"),
    ],
)
def test_a_structure_that_cannot_be_this_models(folder: Path, mask: StructureMask, reason: str) -> None:
    write_json(folder / "structure.json", mask.to_json())
    name_again(folder, "structure.json")
    refused(folder, reason, "ticket.json")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"format": 1, "kind": "structure", "layers": []}',
        b'{"format": 1, "kind": "structure", "layers": [{"heads": "12", "ffn": true}]}',
        b'{"format": 2, "kind": "structure", "layers": [{"heads": "11", "ffn": true}]}',
        b'{"format": 1, "kind": "structure", "layers": [{"heads": "11", "ffn": 1}]}',
        b'{"format": 1, "kind": "structure", "layers": [{"heads": "11", "ffn": true, "run": "x"}]}',
    ],
)
def test_a_structure_that_is_none(folder: Path, content: bytes) -> None:
    (folder / "structure.json").write_bytes(content)
    name_again(folder, "structure.json")
    refused(folder, "structure|mask|layer|heads|FFN|key", "structure.json")


def test_a_missing_linked_or_changed_structure(folder: Path, tmp_path: Path) -> None:
    content = (folder / "structure.json").read_bytes()
    (folder / "structure.json").write_bytes(content.replace(b"1101", b"1111"))
    refused(folder, "SHA-256", "structure.json")
    (folder / "structure.json").unlink()
    refused(folder, "missing", "structure.json")
    (tmp_path / "elsewhere.json").write_bytes(content)
    (folder / "structure.json").symlink_to(tmp_path / "elsewhere.json")
    refused(folder, "link to another place", "structure.json")


def test_the_other_kinds_file_is_no_file_of_this_ticket(folder: Path, tmp_path: Path) -> None:
    save_mask(folder / "mask.safetensors", tiny_mask())
    with pytest.warns(UserWarning, match=r"not read: mask\.safetensors"):
        assert Ticket.from_pretrained(folder) == structured_ticket()
    name_again(folder, "mask.safetensors")
    refused(folder, "no file of a ticket", "ticket.json")
    weights = tiny_ticket().save_pretrained(tmp_path / "weights")
    shutil.copy(folder / "structure.json", weights)
    name_again(weights, "structure.json")
    refused(weights, "no file of a ticket", "ticket.json")


def test_a_kind_said_wrongly(folder: Path) -> None:
    change(folder, lambda described: described["mask"].update(kind="weights"))
    refused(folder, "does not name mask.safetensors", "ticket.json")


@pytest.mark.parametrize("kind", ["blocks", "structure2", "", "\x1b[2J"])
def test_a_kind_of_a_later_version(folder: Path, kind: str) -> None:
    change(folder, lambda described: described["mask"].update(kind=kind))
    error = refused(folder, "of a kind that this tombola does not know", "ticket.json")
    assert "upgrade" in error.todo
    assert error.what.isprintable()


@pytest.mark.parametrize("mask", [None, [], "structure", {}, {"kind": None}, {"kind": ["structure"]}])
def test_a_kind_that_is_not_said(folder: Path, mask: object) -> None:
    change(folder, lambda described: described.update(mask=mask))
    refused(folder, "does not say the kind of its mask", "ticket.json")


# --- the model card ---------------------------------------------------------------


def test_the_card(tmp_path: Path) -> None:
    for about, has_latency in (({}, False), ({"latency": tiny_latency()}, True)):
        saved = structured_ticket(about=about).save_pretrained(tmp_path / str(has_latency))
        _, front, text = (saved / "README.md").read_text().split("---\n", 2)
        assert yaml.safe_load(front)["base_model"] == "prajjwal1/bert-tiny"
        assert "ticket.model(num_labels=2)" in text
        assert 'tombola.load("this-folder' not in text, "it brings no model"
        assert "TicketCallback" not in text
        assert "zeros that are still multiplied" not in text
        assert "| attention heads | 8 of 12 | 66.7 % |" in text
        assert "| FFNs | 2 of 3 | 66.7 % |" in text
        assert "| weight of the model |  | 74.4 % |" in text
        assert "| weight of the encoder |  | 68.0 % |" in text
        assert "| ticket | 72.50 ± 1.10 | 71.75 ± 1.20 | 5 |" in text
        assert "| 30 % | 4, 1 | 74.4 % | 72.10 ± 1.30 | 5 |" in text
        assert "A whole search per seed (0, 1, 2, 3, 4)" in text
        assert ("has not been measured here" in text) is not has_latency
        assert ("| 1 | 128 | 40.0 ms | 30.0 ms | 0.75 |" in text) is has_latency


def test_the_card_says_where_early_stopping_stopped(tmp_path: Path) -> None:
    recipe = {"early_stopping": {"patience": 1}}
    saved = structured_ticket(settings={"recipe": recipe}).save_pretrained(tmp_path / "ticket")
    assert "of the epoch that early stopping kept" in (saved / "README.md").read_text()


def test_the_names_of_results_cannot_break_out_of_a_table(tmp_path: Path) -> None:
    results = {"rest_summary": {"a | b": {"mean": 1.0, "n": "x | y"}}, "metric": "m | n"}
    text = (structured_ticket(results=results).save_pretrained(tmp_path / "t") / "README.md").read_text()
    assert "| a \\| b |" in text
