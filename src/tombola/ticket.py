"""Ticket: a mask, the weights it starts from, and where it came from (SPEC section 1, DESIGN 5)."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from tombola import ticket_folder
from tombola.canonical import canonical_json, digest
from tombola.errors import CorruptArtifact, MaskMismatch, TombolaError, UsageError
from tombola.files import read_tensors, write_bytes, write_json, write_tensors
from tombola.masks.structure_mask import StructureMask
from tombola.masks.structure_sizes import StructureSizes
from tombola.masks.weight_mask import WeightMask
from tombola.ticket_card import block, card
from tombola.ticket_folder import CARD, FORMAT, MODEL, START, TICKET, Place
from tombola.ticket_mask import FORMS, form_named, form_of, sizes_in, sparsity_without_optional
from tombola.ticket_model import BaseModel, check_weights, load_trained, without_path

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: Sections that say what a ticket *is*: its identity covers them, the mask's bits and the start's.
IDENTIFYING = ("model", "task", "method", "settings", "start", "results", "parent")


@dataclass(frozen=True, eq=False)
class Ticket:
    """A ticket, immutable; two tickets are equal when their identities are.

    ``mask``: single weights, or whole heads and FFNs (a structured ticket, such as a super ticket).
    ``model``: source (id or name, never a path), revision, fingerprint of θ0, family, prefix, optional (names
    of the pooler); of a structured ticket also ``sizes``, the StructureSizes of the full model. ``start``: kind
    "pretrained", or "rewound" / "trained" and then ``start_state`` by backbone-relative name (and the head of
    step i, if any, under ``head::``). ``about`` (dates, versions, latencies) is the one section that no hash covers.
    """

    mask: WeightMask | StructureMask
    model: Any  # given as any mapping, kept as a BaseModel: facts, and called, the model to start from
    task: Mapping[str, Any] | None = None
    method: str = "unknown"
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, Any] = field(default_factory=lambda: {"kind": "pretrained", "step": 0})
    results: Mapping[str, Any] = field(default_factory=dict)
    parent: str | None = None
    start_state: Mapping[str, torch.Tensor] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        form = form_of(self.mask)
        for name in (*IDENTIFYING, "about"):
            object.__setattr__(self, name, _plain(name, getattr(self, name)))
        own = BaseModel(without_path(self.model))
        own.ticket = self
        object.__setattr__(self, "model", own)
        form.check(self.mask, own)
        if self.start_state is not None:
            copied = {name: tensor.detach().to("cpu", copy=True) for name, tensor in self.start_state.items()}
            object.__setattr__(self, "start_state", MappingProxyType(copied))
        self._check_optional()
        self._check_start()

    # --- what it is ---------------------------------------------------------

    @property
    def weight_mask(self) -> WeightMask:
        """The mask of single weights; a structured ticket has none."""
        if isinstance(self.mask, WeightMask):
            return self.mask
        raise MaskMismatch(
            "a structured ticket removes whole heads and FFNs: it has no mask of single weights, and no sparsity",
            where=f"ticket {self.identity[:12]}",
            todo="ask for ticket.structure, ticket.remaining_weight, ticket.remaining_of_encoder",
        )

    @property
    def structure(self) -> StructureMask:
        """The heads and FFNs that a structured ticket keeps; a ticket of single weights has no such mask."""
        if isinstance(self.mask, StructureMask):
            return self.mask
        raise MaskMismatch(
            "this ticket prunes single weights: its model has all its heads and FFNs",
            where=f"ticket {self.identity[:12]}",
            todo="ask for ticket.weight_mask, ticket.sparsity",
        )

    @property
    def is_structured(self) -> bool:
        return isinstance(self.mask, StructureMask)

    @property
    def sparsity(self) -> float:
        """Zeros per prunable weight."""
        return self.weight_mask.sparsity

    @property
    def sparsity_without_optional(self) -> float:
        """The same without the declared optional part (the pooler): what models of other classes share."""
        return sparsity_without_optional(self.weight_mask, self.model)

    @property
    def sizes(self) -> StructureSizes:
        """Of the full model that a structured ticket is a part of."""
        return sizes_in(self.model)

    @property
    def remaining_weight(self) -> float:
        """The share of the whole pre-trained model, embeddings included, that a structured ticket keeps."""
        return self.sizes.remaining_weight(self.structure)

    @property
    def remaining_of_encoder(self) -> float:
        """The same of the encoder alone."""
        return self.sizes.remaining_of_encoder(self.structure)

    @property
    def amount(self) -> dict[str, Any]:
        """How much is pruned, as ``ticket.json`` says it, without the list of matrices."""
        described = form_of(self.mask).described(self.mask, self.model)
        return {name: value for name, value in described.items() if name != "tensors"}

    @property
    def identity(self) -> str:
        """SHA-256 over everything but ``about``."""
        sections = {name: getattr(self, name) for name in IDENTIFYING}
        own = {"format": FORMAT, "mask": self.mask.digest(), "start_state": self._start_fingerprint}
        return digest({**sections, **own})

    @cached_property
    def _start_fingerprint(self) -> str | None:
        from tombola.models.fingerprint import fingerprint

        return None if self.start_state is None else fingerprint(self.start_state)

    def __eq__(self, other: object) -> bool:
        return self.identity == other.identity if isinstance(other, Ticket) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.identity)

    def __str__(self) -> str:
        return block(self)

    def check_against(self, shapes: Mapping[str, tuple[int, ...]]) -> WeightMask:
        """The part of the mask that applies to a model with these prunable matrices.

        A matrix that the ticket declares as optional (the pooler) may be missing there; nothing else may.
        """
        optional = self.model.get("optional", ())
        mask = self.weight_mask
        applied = mask.restrict([name for name in mask.names if name in shapes or name not in optional])
        applied.check_against(shapes)
        return applied

    def _check_optional(self) -> None:
        optional = self.model.get("optional", [])
        if not isinstance(optional, list) or not all(isinstance(name, str) for name in optional):
            raise UsageError("a model's optional parts are a list of names", where="model.optional")

    def _check_start(self) -> None:
        kind = self.start.get("kind")
        if (kind == "pretrained") != (self.start_state is None):
            rule = "bring no weights of their own" if kind == "pretrained" else "must bring their weights"
            raise MaskMismatch(f"tickets that start from '{kind}' weights {rule}", where="start")
        if self.start_state is None:
            return
        if isinstance(self.mask, StructureMask):
            raise MaskMismatch(
                "a structured ticket starts from the pre-trained weights, not from later ones",
                where="start",
                todo="rewind it to θ0: leave start and start_state out",
            )
        for name, shape in self.mask.shapes.items():
            if name not in self.start_state:
                raise MaskMismatch("the weights to start from lack a tensor of the mask", where=name)
            found = tuple(self.start_state[name].shape)
            if found != shape:
                raise MaskMismatch(
                    f"the mask has shape {shape}, the weights to start from {found}", where=name
                )

    # --- as a folder --------------------------------------------------------

    def save_pretrained(
        self,
        folder: Path | str,
        force: bool = False,
        model: Any = None,
        license: str | None = None,
        tokenizer: Any = None,
    ) -> Path:
        """Write the ticket as a folder, at once or not at all; ``model`` (trained) goes into ``model/``.

        ``tokenizer`` goes there too, so that ``model/`` is all that a pipeline needs.
        ``force`` replaces a ticket that is there, and nothing but a ticket.
        """
        if model is not None:
            check_weights(self, model)
        form = form_of(self.mask)

        def fill(place: Path) -> None:
            form.save(place / form.file, self.mask)
            if self.start_state is not None:
                write_tensors(place / START, self.start_state)
            if model is not None:
                model.save_pretrained(place / MODEL)
                if tokenizer is not None:
                    tokenizer.save_pretrained(place / MODEL)
            write_bytes(place / CARD, card(self, license=license, has_model=model is not None).encode())
            table = ticket_folder.file_table(place)
            write_json(place / TICKET, {**self._described(), "files": table})
            ticket_folder.check_files(Place(place, with_model=True), table, form.file)

        ticket_folder.write_folder(Path(folder), fill, force=force)
        return Path(folder)

    @classmethod
    def from_pretrained(cls, folder: Path | str, revision: str | None = None) -> Ticket:
        """Read a ticket from a folder or a hub repository. Nothing is run; what does not fit is refused."""
        return cls._read(ticket_folder.find(folder, revision, with_model=False))

    @classmethod
    def _read(cls, place: Place) -> Ticket:
        described = ticket_folder.read_ticket_json(place)
        where = str(place.folder / TICKET)
        form = form_named(described["mask"], where)
        ticket_folder.check_files(place, described["files"], form.file)
        mask = form.load(place.folder / form.file)
        state = read_tensors(place.folder / START) if START in described["files"] else None
        try:
            sections = {name: described[name] for name in (*IDENTIFYING, "about")}
            ticket = cls(mask=mask, start_state=state, **sections)
            expected = ticket._described()
            same = canonical_json(expected) == canonical_json({key: described[key] for key in expected})
        except (TombolaError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = error.what if isinstance(error, TombolaError) else str(error)
            raise CorruptArtifact(f"{TICKET} describes no possible ticket: {reason}", where=where) from None
        if not same:
            raise CorruptArtifact(
                f"{TICKET} does not describe the ticket beside it (another identity, mask or start)",
                where=where,
                todo="something was changed after it was saved: get the folder again from where it came",
            )
        return ticket

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        revision: str | None = None,
        commit_message: str | None = None,
        license: str | None = None,
        model: Any = None,
    ) -> str:
        """Upload the ticket's folder to a hub repository, made if need be; returns its address."""
        from huggingface_hub import HfApi

        api = HfApi(token=token)
        other_masks = [form.file for form in FORMS.values() if form is not form_of(self.mask)]
        with tempfile.TemporaryDirectory() as scratch:
            folder = self.save_pretrained(Path(scratch) / "ticket", model=model, license=license)
            address = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(
                repo_id=repo_id,
                folder_path=folder,
                revision=revision,
                commit_message=commit_message or f"Upload ticket {self.identity[:12]}",
                # What an earlier ticket had and this one has not would be read as tampering.
                delete_patterns=[START, f"{MODEL}/*", *other_masks],
            )
        return str(address)

    def _described(self) -> dict[str, Any]:
        """Everything in ``ticket.json`` but the table of files."""
        return {
            "format": FORMAT,
            "identity": self.identity,
            **{name: getattr(self, name) for name in IDENTIFYING},
            "mask": form_of(self.mask).described(self.mask, self.model),
            "start_state": self._start_fingerprint,
            "about": self.about,
        }


def load_model(folder: Path | str, revision: str | None = None) -> PreTrainedModel:
    """The trained transformers model in ``model/`` of a ticket's folder or hub repository, or a physically smaller
    model that lies there without its ticket."""
    place = ticket_folder.find(folder, revision, with_model=True)
    if not os.path.lexists(place.folder / TICKET) and (place.folder / "config.json").is_file():
        from tombola.models import deployed_loading

        return deployed_loading.load(place.folder)
    if f"{MODEL}/config.json" not in ticket_folder.read_ticket_json(place)["files"]:
        raise UsageError(
            "the ticket brings no trained model, only its mask",
            where=str(folder),
            todo=f'the start, to be trained: tombola.Ticket.from_pretrained("{folder}").model(num_labels=…)',
        )
    ticket = Ticket._read(place)
    return load_trained(ticket, place.folder / MODEL)


def _plain(name: str, value: Any) -> Any:
    """A deep copy as JSON holds it, so that a ticket is the same after it was saved and loaded."""
    kinds: dict[str, tuple[type, ...]] = {"method": (str,), "parent": (str, type(None))}
    wanted = kinds.get(name, (Mapping, type(None)) if name == "task" else (Mapping,))
    if not isinstance(value, wanted):
        raise UsageError(f"a ticket's {name} cannot be a {type(value).__name__}", where=name)
    try:
        return json.loads(canonical_json(dict(value) if isinstance(value, Mapping) else value))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"a ticket's {name} must be plain JSON ({error})", where=name) from None
