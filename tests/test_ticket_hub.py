"""Tickets on a hub: what is uploaded, what is fetched, and what of a hub's cache is trusted. No network."""

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors
from tests.tickets import rewound_ticket, tiny_ticket

from tombola.errors import CorruptArtifact, UsageError
from tombola.ticket import Ticket, load_model


class FakeHub:
    """Stands in for HfApi and snapshot_download; the cache is laid out as huggingface_hub does it."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.raises: Exception | None = None

    def api(self, token: str | None = None) -> "FakeHub":
        self.calls.append(("HfApi", {"token": token}))
        return self

    def create_repo(self, repo_id: str, **options: Any) -> str:
        self.calls.append(("create_repo", {"repo_id": repo_id, **options}))
        return f"https://hub.invalid/{repo_id}"

    def upload_folder(self, *, folder_path: Path, **options: Any) -> None:
        self.calls.append(("upload_folder", options))
        blobs, snapshot = self.cache / "blobs", self.cache / "snapshots" / "abc123"
        blobs.mkdir(parents=True, exist_ok=True)
        snapshot.mkdir(parents=True, exist_ok=True)
        for path in sorted(Path(folder_path).iterdir()):
            shutil.copy(path, blobs / f"blob-of-{path.name}")
            (snapshot / path.name).symlink_to(Path("../../blobs") / f"blob-of-{path.name}")

    def snapshot_download(self, repo_id: str, **options: Any) -> str:
        self.calls.append(("snapshot_download", {"repo_id": repo_id, **options}))
        if self.raises is not None:
            raise self.raises
        return str(self.cache / "snapshots" / "abc123")

    def last(self, name: str) -> dict[str, Any]:
        return [options for called, options in self.calls if called == name][-1]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(tmp_path / "models--me--ticket")
    monkeypatch.setattr(huggingface_hub, "HfApi", fake.api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    return fake


def test_there_and_back(hub: FakeHub) -> None:
    ticket = rewound_ticket()
    address = ticket.push_to_hub("me/ticket", private=True, token="secret", revision="draft", license="mit")
    assert address == "https://hub.invalid/me/ticket"
    assert hub.last("HfApi") == {"token": "secret"}
    assert hub.last("create_repo") == {"repo_id": "me/ticket", "private": True, "exist_ok": True}
    uploaded = hub.last("upload_folder")
    assert (uploaded["repo_id"], uploaded["revision"]) == ("me/ticket", "draft")
    assert ticket.identity[:12] in uploaded["commit_message"]

    loaded = Ticket.from_pretrained("me/ticket", revision="abc123")
    assert loaded == ticket
    fetched = hub.last("snapshot_download")
    assert (fetched["repo_id"], fetched["revision"]) == ("me/ticket", "abc123")
    assert set(fetched["allow_patterns"]) == {
        "ticket.json",
        "mask.safetensors",
        "structure.json",
        "start.safetensors",
        "README.md",
    }


def test_what_an_earlier_ticket_left_is_deleted(hub: FakeHub) -> None:
    tiny_ticket().push_to_hub("me/ticket")
    assert hub.last("upload_folder")["delete_patterns"] == [
        "start.safetensors",
        "model/*",
        "structure.json",  # a structured ticket may have stood there
    ]


def test_the_model_is_fetched_only_when_it_is_asked_for(hub: FakeHub) -> None:
    tiny_ticket().push_to_hub("me/ticket")
    with pytest.raises(UsageError, match="no trained model"):
        load_model("me/ticket", revision="abc123")
    fetched = hub.last("snapshot_download")["allow_patterns"]
    assert "model/*.safetensors" in fetched
    assert not any(pattern.endswith((".bin", ".py", "*")) for pattern in fetched)


def test_what_hubs_add_is_no_news(hub: FakeHub) -> None:
    tiny_ticket().push_to_hub("me/ticket")
    (hub.cache / "snapshots" / "abc123" / ".gitattributes").write_text("*.safetensors filter=lfs")
    assert Ticket.from_pretrained("me/ticket") == tiny_ticket()


def test_only_links_into_the_cache_are_followed(hub: FakeHub, tmp_path: Path) -> None:
    tiny_ticket().push_to_hub("me/ticket")
    mask = hub.cache / "snapshots" / "abc123" / "mask.safetensors"
    shutil.copy(mask, tmp_path / "secret")
    mask.unlink()
    mask.symlink_to(tmp_path / "secret")
    with pytest.raises(CorruptArtifact, match="link to another place"):
        Ticket.from_pretrained("me/ticket")


def test_a_cache_that_was_changed(hub: FakeHub) -> None:
    tiny_ticket().push_to_hub("me/ticket")
    blob = hub.cache / "blobs" / "blob-of-mask.safetensors"
    blob.write_bytes(blob.read_bytes()[:-1] + b"\x00")
    with pytest.raises(CorruptArtifact, match="SHA-256"):
        Ticket.from_pretrained("me/ticket")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (errors.LocalEntryNotFoundError("offline"), "did not give it"),
        (errors.OfflineModeIsEnabled("offline"), "did not give it"),
        (ConnectionError("no route"), "did not give it"),
        (errors.HFValidationError("bad id"), "neither a folder nor a hub repository"),
    ],
)
def test_a_hub_that_gives_nothing(hub: FakeHub, raised: Exception, said: str) -> None:
    hub.raises = raised
    with pytest.raises(UsageError, match=said):
        Ticket.from_pretrained("me/ticket")


def test_a_mistake_of_ours_is_not_hidden(hub: FakeHub) -> None:
    hub.raises = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        Ticket.from_pretrained("me/ticket")
