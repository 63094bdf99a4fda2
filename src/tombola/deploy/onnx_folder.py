"""An exported model as a folder: the ONNX file, tokenizer, configuration, and ``export.json`` that says what they are.

Written at once or not at all, as a ticket is; replaced only by force, and only if it is an export and nothing more.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola import __version__
from tombola.deploy.inputs import inputs_of
from tombola.deploy.onnx_export import OPSET, TOLERANCE, Written, to_onnx
from tombola.deploy.onnx_session import require_onnx
from tombola.deploy.quantisation import Quantised, Scoring, check_kind, quantise
from tombola.deploy.surroundings import versions_of
from tombola.errors import UsageError
from tombola.files import sha256_of, write_json
from tombola.ticket_folder import write_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FORMAT = 1
EXPORT, ONNX, ONNX_INT8 = "export.json", "model.onnx", "model_int8.onnx"
LIBRARIES = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime")


@dataclass(frozen=True)
class Export:
    """What was written, and how it was checked."""

    folder: Path
    written: Written
    quantised: Quantised | None
    described: Mapping[str, Any]  # export.json

    @property
    def bytes(self) -> int:
        """Of the ONNX file in full precision, with its weights."""
        files = self.described["files"]
        return sum(entry["size"] for name, entry in files.items() if name.startswith(ONNX))


def export_onnx(
    model: PreTrainedModel,
    folder: Path | str,
    *,
    tokenizer: Any = None,
    opset: int = OPSET,
    quantize: str | None = None,
    scoring: Scoring | None = None,
    origin: Mapping[str, Any] | None = None,
    threads: int = 1,
    force: bool = False,
) -> Export:
    """Write ``model`` as ONNX into ``folder`` after its answers were compared with torch's.

    ``tokenizer`` (or an image processor) is saved beside it and decides which inputs the file declares.
    ``quantize="int8"`` writes a second file and wants a ``scoring``: the accuracy before and after is measured, not
    promised. ``origin`` says in ``export.json`` where the model came from.
    """
    require_onnx()
    if quantize is not None:
        check_kind(quantize)
        if scoring is None:
            raise UsageError(
                "what quantisation costs can only be measured on a task's development set",
                where="quantize",
                todo="give scoring=Scoring.of(task_data, tokenizer, max_length)",
            )
    refuse_replacing(Path(folder).expanduser().resolve(), force)
    padding = _with_padding(model, tokenizer)
    found: dict[str, Any] = {}

    def fill(place: Path) -> None:
        written = to_onnx(padding, place / ONNX, inputs_of(padding, _text(tokenizer)), opset=opset)
        quantised = None
        if quantize is not None and scoring is not None:
            quantised = quantise(place / ONNX, place / ONNX_INT8, scoring, kind=quantize, threads=threads)
        padding.config.save_pretrained(place)
        if tokenizer is not None:
            tokenizer.save_pretrained(place)
        described = _described(model, written, quantised, origin or {}, _table(place))
        write_json(place / EXPORT, described)
        found.update(written=written, quantised=quantised, described=described)

    write_folder(Path(folder), fill, force=force, refuse=refuse_replacing)
    return Export(Path(folder), **found)


def refuse_replacing(folder: Path, force: bool) -> None:
    """``force`` replaces an export; it never deletes what tombola did not write."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not force:
        raise UsageError(
            "there is something at the export's place already",
            where=str(folder),
            todo="choose another folder with --out, or replace the export that is there (--force, force=True)",
        )
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
    strangers = sorted(found - _own_files(folder))
    if EXPORT not in found or strangers:
        raise UsageError(
            f"more than an export stands at the export's place: {(strangers or sorted(found))[0]}",
            where=str(folder),
            todo="choose another folder with --out, or clear this one yourself",
        )


def _own_files(folder: Path) -> set[str]:
    """What the export there says that it wrote."""
    from tombola.errors import CorruptArtifact
    from tombola.files import read_json

    try:
        table = read_json(folder / EXPORT).get("files", {})
        return {EXPORT, *map(str, table)}
    except (CorruptArtifact, AttributeError, TypeError):
        return set()


def _table(place: Path) -> dict[str, dict[str, Any]]:
    return {
        path.name: {"size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(place.iterdir())
        if path.is_file()
    }


def _described(
    model: PreTrainedModel,
    written: Written,
    quantised: Quantised | None,
    origin: Mapping[str, Any],
    files: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "tombola": __version__,
        "class": type(model).__name__,
        "origin": dict(origin),
        "opset": written.opset,
        "precision": "fp32",
        "inputs": list(written.inputs),
        "outputs": list(written.outputs),
        "axes": {
            name: {str(axis): free for axis, free in axes.items()} for name, axes in written.axes.items()
        },
        "checked": {
            "largest_difference": written.difference,
            "tolerance": TOLERANCE,
            "cases": [asdict(case) for case in written.cases],
        },
        "quantised": None if quantised is None else asdict(quantised),
        "versions": versions_of(LIBRARIES),
        "files": dict(files),
    }


def _with_padding(model: PreTrainedModel, tokenizer: Any) -> PreTrainedModel:
    """A language model without a padding token cannot tell where a text in a batch ends."""
    if tokenizer is None or getattr(model.config, "pad_token_id", 0) is not None:
        return model
    padding = copy.deepcopy(model)
    padding.config.pad_token_id = tokenizer.pad_token_id
    return padding


def _text(tokenizer: Any) -> Any:
    """An image processor says nothing about text inputs."""
    return tokenizer if hasattr(tokenizer, "model_input_names") else None
