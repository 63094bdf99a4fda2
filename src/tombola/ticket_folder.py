"""A ticket's folder: written at once or not at all, and read as if an enemy had made it.

``ticket.json`` names every other file with its size and SHA-256. Only names of the forms below are possible,
only files named there are read, and each is hashed first. A file that is *not* named there is left alone:
beside the ticket it is ignored with a warning (hubs add files of their own, known ones in silence), inside
``model/`` it is refused, because a loader of models looks at whatever it finds there. Links are refused, but
for those that a hub's cache is made of.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tombola.errors import CorruptArtifact, UsageError
from tombola.files import check_tensor_file, fsync_folder, read_json, sha256_of

FORMAT = 1
TICKET, MASK, STRUCTURE, START, CARD, MODEL = (
    "ticket.json",
    "mask.safetensors",
    "structure.json",
    "start.safetensors",
    "README.md",
    "model",
)
SECTIONS = (
    *("format", "identity", "model", "task", "method", "settings", "start", "results", "parent"),
    *("mask", "start_state", "files", "about"),
)
#: What is ever fetched from a hub to read a ticket; the trained model only when it is asked for.
TICKET_FILES = [TICKET, MASK, STRUCTURE, START, CARD]
#: A physically smaller model may also lie in a repository of its own, without its ticket.
MODEL_FILES = [
    f"{MODEL}/*.json",
    f"{MODEL}/*.safetensors",
    f"{MODEL}/*.txt",
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
]
#: Files that hubs and version control put beside a ticket.
HARMLESS = (".gitattributes", ".gitignore", ".git", ".cache", "LICENSE", "LICENSE.txt", "LICENSE.md")

_IN_MODEL = re.compile(rf"{MODEL}/[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}\.(json|safetensors|txt)", re.ASCII)
_RUNS_CODE = (".bin", ".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib", ".npy", ".npz", ".h5", ".py")


@dataclass(frozen=True)
class Place:
    """A folder to read: into which other folder its links may point, and whether ``model/`` is read too."""

    folder: Path
    links_into: Path | None = None
    with_model: bool = False


# --- writing ------------------------------------------------------------


def write_folder(
    folder: Path,
    fill: Callable[[Path], None],
    *,
    force: bool,
    refuse: Callable[[Path, bool], None] | None = None,
) -> None:
    """Let ``fill`` write into a sibling, flush it, and rename it to ``folder``; ``refuse`` says what is kept."""
    folder = Path(folder).expanduser().resolve()
    (refuse or refuse_replacing)(folder, force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex[:12]
    sibling, aside = (folder.with_name(f".{folder.name}.{mark}.{what}") for what in ("partial", "old"))
    try:
        sibling.mkdir()
        fill(sibling)
        for path in sorted(sibling.rglob("*")):
            _flush(path)
        fsync_folder(sibling)
        if folder.exists():
            os.replace(folder, aside)
        try:
            os.replace(sibling, folder)
        except BaseException:
            if aside.exists():
                os.replace(aside, folder)
            raise
        fsync_folder(folder.parent)
    finally:
        shutil.rmtree(sibling, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)


def file_table(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file below ``folder`` but ``ticket.json``."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / TICKET]
    return {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in paths
    }


def refuse_replacing(folder: Path, force: bool) -> None:
    """``force`` replaces a ticket; it never deletes what tombola did not write."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not force:
        raise UsageError(
            "there is something at the ticket's place already",
            where=str(folder),
            todo="choose another folder, or replace the ticket that is there (--force, force=True)",
        )
    found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name]
    strangers = [name for name in found if name not in (*TICKET_FILES, MODEL)]
    if strangers or TICKET not in found:
        raise UsageError(
            f"more than a ticket stands at the ticket's place: {(strangers or found)[0]}",
            where=str(folder),
            todo="choose another folder, or clear this one yourself",
        )


def _flush(path: Path) -> None:
    if path.is_dir():
        fsync_folder(path)
        return
    with open(path, "rb") as file:
        os.fsync(file.fileno())


# --- finding ------------------------------------------------------------


def find(folder: Path | str, revision: str | None, *, with_model: bool) -> Place:
    """A folder of the user's own (read whole), or a hub repository (``model/`` only when it is wanted)."""
    path, text = Path(folder).expanduser(), str(folder)
    if path.is_dir():
        if revision is not None:
            raise UsageError("a folder has no revisions", where=text, todo="leave the revision out")
        return Place(path, with_model=True)
    if isinstance(folder, Path) or path.exists() or text.startswith((".", "/", "~")) or text.count("/") > 1:
        raise UsageError(
            "there is no such folder", where=text, todo=f"give the folder of a ticket, with its {TICKET}"
        )
    snapshot = _fetch(text, revision, TICKET_FILES + MODEL_FILES if with_model else TICKET_FILES)
    # The hub's cache: snapshots/<commit>/ticket.json is a link into blobs/, whose files are named by hash.
    return Place(snapshot, links_into=snapshot.parent.parent / "blobs", with_model=with_model)


def _fetch(repo_id: str, revision: str | None, patterns: list[str]) -> Path:
    import huggingface_hub
    from huggingface_hub import errors

    try:
        return Path(
            huggingface_hub.snapshot_download(repo_id, revision=revision, allow_patterns=list(patterns))
        )
    except errors.HFValidationError:
        raise UsageError(
            f"'{repo_id}' is neither a folder nor a hub repository",
            where="ticket",
            todo=f"give the folder that holds {TICKET}, or owner/name",
        ) from None
    except errors.RevisionNotFoundError:
        raise UsageError(f"the hub has no revision '{revision}' of '{repo_id}'", where=repo_id) from None
    except Exception as error:
        # The hub's client lets through errors of whichever transport it was built on.
        known = (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, OSError)
        if not isinstance(error, known) and type(error).__module__.split(".")[0] not in ("httpx", "httpcore"):
            raise
        raise UsageError(
            f"'{repo_id}' is no folder here, and the hub did not give it ({type(error).__name__})",
            where="ticket",
            todo="check the spelling and the connection; private ones need: hf auth login",
        ) from None


# --- reading ------------------------------------------------------------


def read_ticket_json(place: Place) -> dict[str, Any]:
    """``ticket.json`` with all its sections, of a format that this tombola reads; their sense comes later."""
    path = place.folder / TICKET
    if not path.exists() and not path.is_symlink():
        raise CorruptArtifact(f"the folder holds no {TICKET}, so no ticket", where=str(place.folder))
    _check_plain_file(path, place.links_into)
    try:
        described = read_json(path)
    except (ValueError, OSError) as error:
        raise CorruptArtifact(f"{TICKET} is not valid JSON ({error})", where=str(path)) from None
    if not isinstance(described, dict) or type(described.get("format")) is not int:
        raise CorruptArtifact(f"{TICKET} is no ticket: it does not say its format", where=str(path))
    if described["format"] > FORMAT:
        raise CorruptArtifact(
            f"the ticket has format {described['format']}, this tombola reads {FORMAT}: "
            "it was made by a newer tombola",
            where=str(path),
            todo="upgrade: pip install --upgrade tombola",
        )
    missing = [name for name in SECTIONS if name not in described]
    if missing or described["format"] != FORMAT:
        raise CorruptArtifact(
            f"{TICKET} is no ticket of format {FORMAT}: it lacks {', '.join(missing) or 'that'}",
            where=str(path),
        )
    if unknown := sorted(str(key)[:40] for key in described.keys() - set(SECTIONS)):
        _warn(f"{path}: ignored, because this tombola does not know it: {', '.join(unknown[:5])}")
    return described


def check_files(place: Place, table: Any, mask_file: str) -> None:
    """Refuse a folder of which one file is missing, changed, a link, or of a name or kind that cannot be.

    ``mask_file`` is the one that tickets of this kind of mask have; the other kind's is no file of theirs.
    """
    where = str(place.folder / TICKET)
    if not isinstance(table, dict) or mask_file not in table:
        raise CorruptArtifact(f"{TICKET} does not name {mask_file} among its files", where=where)
    for name in sorted(table):
        _check_name(name, where, mask_file)
        _check_entry(name, table[name], where)
    inside = [name for name in sorted(table) if name.startswith(f"{MODEL}/")]
    if place.with_model and inside and not _is_plain_folder(place.folder / MODEL):
        raise CorruptArtifact(f"{MODEL}/ is missing, or no plain folder", where=str(place.folder / MODEL))
    for name in sorted(table):
        if place.with_model or name not in inside:
            _check_content(place.folder / name, table[name], place.links_into)
    _look_for_strangers(place, table)


def _check_name(name: str, where: str, mask_file: str) -> None:
    if name in (mask_file, START, CARD) or _IN_MODEL.fullmatch(name):
        return
    shown = ascii(name)[:120]
    if name.startswith(("/", "\\")) or ".." in name.split("/") or "\\" in name or ":" in name:
        raise CorruptArtifact(f"{TICKET} names {shown}, which lies outside the ticket's folder", where=where)
    if name.lower().endswith(_RUNS_CODE):
        raise CorruptArtifact(
            f"{TICKET} names {shown}, a kind of file (pickle or code) that can run what it likes when loaded",
            where=where,
            todo="a ticket holds JSON and safetensors only: do not trust this folder",
        )
    raise CorruptArtifact(f"{TICKET} names {shown}, which is no file of a ticket like this", where=where)


def _check_entry(name: str, entry: Any, where: str) -> None:
    if not (
        isinstance(entry, dict)
        and entry.keys() == {"size", "sha256"}
        and type(entry["size"]) is int
        and isinstance(entry["sha256"], str)
        and re.fullmatch(r"[0-9a-f]{64}", entry["sha256"], re.ASCII)
    ):
        raise CorruptArtifact(f"{TICKET} gives no size and SHA-256 of {name}", where=where)


def _is_plain_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _check_plain_file(path: Path, links_into: Path | None) -> None:
    into_cache = links_into is not None and path.resolve().is_relative_to(links_into.resolve())
    if path.is_symlink() and not into_cache:
        raise CorruptArtifact(
            f"{path.name} is a link to another place",
            where=str(path),
            todo="copy the file itself into the folder",
        )
    if not path.is_file():
        raise CorruptArtifact(f"{path.name} is missing, or no plain file", where=str(path))


def _check_content(path: Path, entry: Mapping[str, Any], links_into: Path | None) -> None:
    _check_plain_file(path, links_into)
    size = path.stat().st_size
    if size != entry["size"]:
        reason = f"{path.name} has {size} bytes where {TICKET} says {entry['size']}"
        raise CorruptArtifact(reason, where=str(path), todo="get the folder again from where it came")
    if sha256_of(path) != entry["sha256"]:
        reason = f"{path.name} was changed: its SHA-256 is not the one that {TICKET} gives"
        raise CorruptArtifact(reason, where=str(path), todo="get the folder again from where it came")
    if path.suffix == ".safetensors":
        check_tensor_file(path)


def _look_for_strangers(place: Place, table: Mapping[str, Any]) -> None:
    if place.with_model and (place.folder / MODEL).is_dir():
        for path in sorted((place.folder / MODEL).iterdir()):
            if f"{MODEL}/{path.name}" not in table:
                raise CorruptArtifact(
                    f"{MODEL}/{path.name} is not named in {TICKET}: somebody put it there afterwards",
                    where=str(path),
                    todo="remove it",
                )
    known = {TICKET, MODEL, *HARMLESS, *table}
    if strangers := sorted(path.name for path in place.folder.iterdir() if path.name not in known):
        _warn(f"{place.folder}: not part of the ticket, so not read: {', '.join(strangers[:5])}")


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)
