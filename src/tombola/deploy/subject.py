"""What is measured or exported: the model behind a ticket's folder, a smaller model's, or any of transformers'."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tombola.errors import MaskMismatch, UnsupportedModel, UsageError
from tombola.files import read_json
from tombola.models.build import load_tokenizer
from tombola.models.deployed import is_smaller
from tombola.models.deployed_loading import holds_smaller_model
from tombola.models.deployed_loading import load as load_smaller
from tombola.models.resolve import EMBEDDED, ModelSource, resolve
from tombola.ticket import Ticket, load_model
from tombola.ticket_folder import MODEL, TICKET

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: How a class's name ends -> the Auto class that loads it. Anything else is loaded as a bare encoder.
_HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMaskedLM",
    "ForImageClassification",
    "ForMultipleChoice",
)
#: The sentence for tickets of single weights (DESIGN 7).
UNSTRUCTURED = (
    "This ticket removes single weights. Zeros inside a matrix do not make dense kernels faster: "
    "expect a ratio of 1, whatever the sparsity."
)


@dataclass(frozen=True)
class Subject:
    """A model at hand, and where it came from. ``trained``: its weights are worth exporting."""

    name: str
    model: PreTrainedModel
    source: ModelSource | None  # the folder with the model and perhaps its tokenizer
    ticket: Ticket | None = None
    trained: bool = True

    @property
    def smaller(self) -> bool:
        """Whether heads or FFNs are gone, so that there is less to compute."""
        return is_smaller(self.model)

    def said(self) -> str:
        """What stands there, in a line."""
        what = f"{self.name}: {type(self.model).__name__}"
        if self.smaller:
            mask = self.model.config.structure  # type: ignore[union-attr]
            return f"{what}, heads {mask.heads_kept}/{mask.head_count}, FFN {mask.ffns_kept}/{mask.ffn_count}"
        if self.ticket is not None and not self.ticket.is_structured:
            return f"{what}, {self.ticket.sparsity:.1%} of its prunable weights are zero"
        return what


def open_subject(
    where: Path | str, *, revision: str | None = None, base: str | None = None, trained: bool = True
) -> Subject:
    """The model at ``where``: a ticket's folder or hub repository, a model's folder, or an embedded name.

    A ticket that brings no trained model is built as its untrained start where ``trained`` is not asked for: its
    speed is the same. ``base`` says where the base model is, if not where the ticket says.
    """
    with _without_bars():
        return _opened(where, revision, base, trained)


def _opened(where: Path | str, revision: str | None, base: str | None, trained: bool) -> Subject:
    text, path = str(where), Path(where).expanduser()
    if (path.is_dir() and not (path / TICKET).is_file()) or text in EMBEDDED:
        source = resolve(text, revision)
        return Subject(_short(text), _plain(source.folder), source)
    ticket = Ticket.from_pretrained(where, revision=revision)
    folder = ModelSource(text, "folder", None, path / MODEL) if path.is_dir() else None
    try:
        return Subject(_short(text), load_model(where, revision), folder, ticket)
    except UsageError:
        if trained:
            raise
    return Subject(_short(text), ticket.model(base=base).eval(), None, ticket, trained=False)


def dense_twin(model: PreTrainedModel) -> PreTrainedModel:
    """The full model that ``model`` was made from: its class, configuration and task head, random weights.

    Time does not depend on the values of weights, so none are fetched.
    """
    full: Any = getattr(type(model), "full_class", type(model))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return full(copy.deepcopy(model.config)).eval()


def tokenizer_of(subject: Subject, base: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer beside the model, or that of the ticket's base model, which must be the ticket's own."""
    if base is None and subject.source is not None:
        try:
            return load_tokenizer(subject.source)
        except UnsupportedModel:
            if subject.ticket is None:
                raise
    told = subject.ticket.model if subject.ticket is not None else {}
    name = base or told.get("source")
    if not isinstance(name, str) or (
        base is None and told.get("kind") == "folder" and not Path(name).is_dir()
    ):
        raise UsageError(
            f"the ticket's base model is a folder called '{name}', which is not here; its tokenizer is wanted",
            where=subject.name,
            todo="say where it is with --model FOLDER (base=…)",
        )
    source = resolve(name, None if base else told.get("revision"))
    _check_base(subject, source)
    return load_tokenizer(source)


def _check_base(subject: Subject, source: ModelSource) -> None:
    """Another model's tokenizer would give other ids, and nothing would fail."""
    if subject.ticket is None:
        return
    from tombola.models.build import pretrained_fingerprint

    found, own = pretrained_fingerprint(source), str(subject.ticket.model.get("fingerprint"))
    if found != own:
        raise MaskMismatch(
            f"the ticket was drawn from another θ0 ({own[:12]}) than this model's ({found[:12]})",
            where=source.name,
            todo="give the base model of the ticket with --model",
        )


def _plain(folder: Path) -> PreTrainedModel:
    """A folder of transformers' own, or of a smaller model, as the class that its configuration names."""
    if holds_smaller_model(folder):
        return load_smaller(folder).eval()
    import transformers

    settings = read_json(folder / "config.json")
    if isinstance(settings, dict) and "auto_map" in settings:
        raise UnsupportedModel(
            "config.json points at code of its own (auto_map), which tombola never runs", where=str(folder)
        )
    named = (settings.get("architectures") or [""])[0] if isinstance(settings, dict) else ""
    head = next((head for head in _HEADS if str(named).endswith(head)), "")
    auto: Any = getattr(transformers, f"AutoModel{head}")
    try:
        model = auto.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise UnsupportedModel(f"the model cannot be loaded ({error})", where=str(folder)) from None
    return model.eval()


@contextmanager
def _without_bars() -> Iterator[None]:
    """transformers draws a bar for every file of weights; the caller's choice comes back afterwards."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _short(name: str) -> str:
    return Path(name).name if Path(name).exists() else name
