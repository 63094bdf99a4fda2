"""A ticket's folder: what is written is what is read, and what was tampered with is refused."""

import hashlib
import json
import os
import shutil
import struct
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tickets import change, name_again, rewound_ticket, tiny_ticket

from tombola.errors import CorruptArtifact, MaskMismatch, TombolaError, UsageError
from tombola.masks.packing import save_mask
from tombola.masks.weight_mask import WeightMask
from tombola.ticket import Ticket

GOLDEN = Path(__file__).parent / "data" / "golden_ticket_v1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return rewound_ticket().save_pretrained(tmp_path / "ticket")


def refused(folder: Path, reason: str, where: str = "") -> None:
    with pytest.raises(CorruptArtifact, match=reason) as caught:
        Ticket.from_pretrained(folder)
    assert where in caught.value.where


# --- round trips ----------------------------------------------------------------


def test_round_trip(tmp_path: Path) -> None:
    for ticket, files in (
        (tiny_ticket(), {"ticket.json", "mask.safetensors", "README.md"}),
        (rewound_ticket(), {"ticket.json", "mask.safetensors", "README.md", "start.safetensors"}),
    ):
        saved = ticket.save_pretrained(tmp_path / ticket.identity)
        assert {path.name for path in saved.iterdir()} == files
        loaded = Ticket.from_pretrained(str(saved))
        assert loaded == ticket
        assert loaded.mask == ticket.mask
        assert loaded.about == ticket.about
        assert (loaded.start_state is None) == (ticket.start_state is None)
        for name, tensor in (ticket.start_state or {}).items():
            assert torch.equal((loaded.start_state or {})[name], tensor)


def test_a_bare_ticket_round_trips(tmp_path: Path) -> None:
    bare = Ticket(WeightMask({"w": torch.tensor([True, False])}), {"fingerprint": "a" * 64})
    assert Ticket.from_pretrained(bare.save_pretrained(tmp_path / "bare")) == bare


def test_equal_tickets_give_equal_bytes(tmp_path: Path) -> None:
    one, two = (rewound_ticket().save_pretrained(tmp_path / name) for name in ("one", "two"))
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


def test_the_golden_ticket_goes_on_loading() -> None:
    """Made by the first release; every later one must read it, as the same ticket."""
    loaded = Ticket.from_pretrained(GOLDEN)
    assert loaded == rewound_ticket()
    assert loaded.about == {"created": "2026-01-02", "tombola": "0.1.0"}


def test_what_stands_in_the_json(folder: Path) -> None:
    described = json.loads((folder / "ticket.json").read_text())
    assert described["format"] == 1
    assert described["mask"]["sparsity"] == 0.5
    assert described["mask"]["zeros"] == 6
    assert described["files"]["mask.safetensors"]["size"] == (folder / "mask.safetensors").stat().st_size
    assert str(folder.parent) not in (folder / "ticket.json").read_text() + (folder / "README.md").read_text()


# --- saving ---------------------------------------------------------------------


def test_saving_does_not_overwrite_by_accident(folder: Path) -> None:
    with pytest.raises(UsageError, match="already"):
        tiny_ticket().save_pretrained(folder)
    assert Ticket.from_pretrained(folder) == rewound_ticket()
    tiny_ticket().save_pretrained(folder, force=True)
    assert Ticket.from_pretrained(folder) == tiny_ticket()
    assert [path.name for path in folder.parent.iterdir()] == ["ticket"]  # nothing is left beside it


def test_force_replaces_tickets_only(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for place in ("thesis", "ticket", "file"):
        with pytest.raises(UsageError, match="more than a ticket"):
            tiny_ticket().save_pretrained(tmp_path / place, force=True)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_save_that_fails_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("tombola.ticket_mask.save_mask", full)
    with pytest.raises(OSError, match="no space"):
        tiny_ticket().save_pretrained(folder, force=True)
    monkeypatch.undo()
    assert Ticket.from_pretrained(folder) == rewound_ticket()
    assert [path.name for path in folder.parent.iterdir()] == ["ticket"]


# --- damaged, tampered, foreign, malicious -----------------------------------------


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_change_of_any_file_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A TombolaError or the same ticket; never another exception, never another mask."""
    folder = tmp_path_factory.mktemp("ticket") / "it"
    shutil.copytree(GOLDEN, folder)
    path = folder / data.draw(st.sampled_from(sorted(os.listdir(folder))))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["flip", "truncate", "insert", "overwrite", "append", "remove"])):
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
        case "append":
            content += data.draw(st.binary(min_size=1, max_size=9))
        case "remove":
            del content[at : at + data.draw(st.integers(1, 40))]
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            loaded = Ticket.from_pretrained(folder)
        except TombolaError:
            return
    original = rewound_ticket()
    assert loaded == original
    assert loaded.mask == original.mask


@pytest.mark.parametrize("name", ["ticket.json", "mask.safetensors", "start.safetensors", "README.md"])
def test_truncated_flipped_or_missing(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    refused(folder, "bytes where|not valid JSON", name)
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0x80
    (folder / name).write_bytes(flipped)
    refused(folder, "SHA-256|not valid JSON", name)
    (folder / name).unlink()
    refused(folder, "missing|holds no ticket.json")


def test_the_facts_cannot_be_changed_either(folder: Path) -> None:
    for edit in (
        lambda d: d["results"]["summary"]["ticket"].update(mean=99.9),
        lambda d: d["model"].update(fingerprint="e" * 64),
        lambda d: d["mask"].update(sparsity=0.9),
        lambda d: d["mask"]["tensors"].popitem(),
        lambda d: d.update(identity="0" * 64),
        lambda d: d.update(start_state=None),
        lambda d: d["start"].update(step=41),
        lambda d: d.update(method=7),
        lambda d: d.update(model=[]),
        lambda d: d["files"].pop("start.safetensors"),
    ):
        described = (folder / "ticket.json").read_bytes()
        change(folder, edit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            refused(folder, "does not describe|no possible ticket", "ticket.json")
        (folder / "ticket.json").write_bytes(described)
    Ticket.from_pretrained(folder)


def test_about_may_change(folder: Path) -> None:
    change(folder, lambda described: described.update(about={"latency_ms": 12.5}))
    assert Ticket.from_pretrained(folder) == rewound_ticket()


def test_another_mask_with_its_own_right_hash(folder: Path) -> None:
    """Somebody swaps the mask and mends the table of files: the identity tells."""
    save_mask(folder / "mask.safetensors", ~rewound_ticket().weight_mask)
    name_again(folder, "mask.safetensors")
    refused(folder, "does not describe the ticket", "ticket.json")


def test_an_all_zero_mask_in_a_folder(folder: Path) -> None:
    save_mask(folder / "mask.safetensors", ~WeightMask.dense(rewound_ticket().weight_mask.shapes))
    name_again(folder, "mask.safetensors")
    refused(folder, "keeps nothing")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../mask.safetensors", "outside"),
        ("model/../../x.json", "outside"),
        ("/etc/passwd", "outside"),
        ("C:\\x.json", "outside"),
        ("model\\x.json", "outside"),
        ("file:///x.json", "outside"),
        ("weights.bin", "pickle"),
        ("model/pytorch_model.bin", "pickle"),
        ("start.pt", "pickle"),
        ("optimizer.PKL", "pickle"),
        ("model/modeling_evil.py", "code"),
        ("model/deep/x.json", "no file of a ticket"),
        ("notes.txt", "no file of a ticket"),
        ("ticket.json", "no file of a ticket"),
        ("model/.hidden.json", "no file of a ticket"),
        ("model/x.json\n", "no file of a ticket"),
        ("", "no file of a ticket"),
    ],
)
def test_names_that_a_ticket_cannot_have(folder: Path, name: str, reason: str) -> None:
    entry = {"size": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    change(folder, lambda described: described["files"].update({name: entry}))
    refused(folder, reason, "ticket.json")


@pytest.mark.parametrize(
    "entry", [None, {}, {"size": 1}, {"size": "1", "sha256": "a" * 64}, {"size": 1, "sha256": "A" * 64}, [1]]
)
def test_entries_that_say_nothing(folder: Path, entry: object) -> None:
    change(folder, lambda described: described["files"].update({"README.md": entry}))
    refused(folder, "no size and SHA-256 of README.md")


def test_links_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("mask.safetensors", "ticket.json", "README.md"):
        shutil.move(folder / name, tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
        refused(folder, "link to another place", name)
        (folder / name).unlink()
        shutil.move(tmp_path / name, folder / name)
    Ticket.from_pretrained(folder)
    (tmp_path / "link").symlink_to(folder)  # the folder itself may be reached by a link
    Ticket.from_pretrained(tmp_path / "link")


def test_a_folder_in_a_files_place(folder: Path) -> None:
    (folder / "README.md").unlink()
    (folder / "README.md").mkdir()
    refused(folder, "no plain file", "README.md")


def test_huge_header(folder: Path) -> None:
    path = folder / "start.safetensors"
    path.write_bytes(struct.pack("<Q", 2**40) + path.read_bytes()[8:])
    name_again(folder, "start.safetensors")
    refused(folder, "announces a header", "start.safetensors")


def test_a_newer_format(folder: Path) -> None:
    change(folder, lambda described: [described.clear(), described.update(format=2, anything="else")])
    with pytest.raises(CorruptArtifact, match="newer tombola") as caught:
        Ticket.from_pretrained(folder)
    assert "upgrade" in caught.value.todo


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"format": 1}',
        b'{"format": "1"}',
        b'{"format": true}',
        b'{"format": 0}',
        b'{"format": 1' + b"0" * 5000 + b"}",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"format": NaN}',
    ],
)
def test_a_json_that_is_no_ticket(folder: Path, content: bytes) -> None:
    (folder / "ticket.json").write_bytes(content)
    refused(folder, "JSON|no ticket|newer", "ticket.json")


def test_values_without_one_spelling(folder: Path) -> None:
    text = (folder / "ticket.json").read_text()
    for value in ("NaN", "Infinity", '"\\ud800"', "[" * 900 + "]" * 900, "1" * 5000):
        (folder / "ticket.json").write_text(text.replace('"epochs": 3', f'"epochs": {value}'))
        refused(folder, "JSON|possible|describe", "ticket.json")


def test_unknown_keys_warn(folder: Path) -> None:
    change(folder, lambda described: described.update(hologram=1))
    with pytest.warns(UserWarning, match="does not know it: hologram"):
        assert Ticket.from_pretrained(folder) == rewound_ticket()


def test_files_that_are_not_named(folder: Path) -> None:
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs")
    Ticket.from_pretrained(folder)  # what hubs add is no news
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.warns(UserWarning, match=r"not read: pytorch_model\.bin"):
        assert Ticket.from_pretrained(folder) == rewound_ticket()


def test_not_a_ticket(tmp_path: Path) -> None:
    with pytest.raises(CorruptArtifact, match="holds no"):
        Ticket.from_pretrained(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        Ticket.from_pretrained(tmp_path / "absent")
    with pytest.raises(UsageError, match="no such folder"):
        Ticket.from_pretrained("./absent")
    with pytest.raises(UsageError, match="no revisions"):
        Ticket.from_pretrained(tmp_path, revision="main")


def test_wrong_shapes_against_the_model(folder: Path) -> None:
    ticket = Ticket.from_pretrained(folder)
    with pytest.raises(MaskMismatch, match="does not fit"):
        ticket.check_against(dict.fromkeys(ticket.weight_mask.names, (5, 5)))


# --- the model card ---------------------------------------------------------------


def front_matter(folder: Path) -> tuple[dict[str, Any], str]:
    import yaml

    _, front, text = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_card(folder: Path, tmp_path: Path) -> None:
    front, text = front_matter(folder)
    assert front["base_model"] == "prajjwal1/bert-tiny"
    assert {"tombola", "lottery-ticket"} <= set(front["tags"])
    assert front["license"] == "unknown"
    assert "tombola.Ticket.from_pretrained(" in text
    assert "ticket.model(num_labels=2)" in text
    assert "does not make dense kernels faster" in text
    assert "| query | 1 | 8 | 50.0 % |" in text
    assert "| pooler | 1 | 4 | 50.0 % |" in text
    assert "| **all** | 2 | 12 | 50.0 % |" in text
    assert "| full | 66.20 | 3.60 | 66.10 | 69.00 | 3 |" in text
    assert "| ticket | 66.00 | – | 66.00 | 66.00 | 1 |" in text
    licensed = tiny_ticket().save_pretrained(tmp_path / "licensed", license="mit")
    assert front_matter(licensed)[0]["license"] == "mit"


def test_the_card_of_an_unknown_family_lists_the_matrices(tmp_path: Path) -> None:
    ticket = tiny_ticket(model={"fingerprint": "a" * 64, "family": "mamba"}, results={})
    _, text = front_matter(ticket.save_pretrained(tmp_path / "ticket"))
    assert "| pooler.dense.weight | 1 | 4 | 50.0 % |" in text
    assert "What was measured" not in text


def test_a_name_cannot_break_out_of_the_front_matter(tmp_path: Path) -> None:
    ticket = tiny_ticket(model={"source": 'x"\n---\nlicense: mit', "fingerprint": ""}, method="a: [b")
    front, _ = front_matter(ticket.save_pretrained(tmp_path / "ticket"))
    assert front["base_model"] == 'x"\n---\nlicense: mit'
    assert front["license"] == "unknown"
    assert "a: [b" in front["tags"]
