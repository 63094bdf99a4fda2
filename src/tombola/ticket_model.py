"""From a ticket to a transformers model: the start that is to be trained, or the trained one beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import torch

from tombola.errors import CorruptArtifact, MaskMismatch, UsageError
from tombola.files import read_json
from tombola.masks.weight_mask import WeightMask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from tombola.ticket import Ticket

#: Names of a task head's weights inside a start: θi brings its head, transfer drops it.
HEAD = "head::"


class BaseModel(dict[str, Any]):
    """What a ticket says about its base model. Called, it builds the model that the ticket starts from.

    So ``ticket.model["fingerprint"]`` is a fact, and ``ticket.model(num_labels=3)`` is a model.
    """

    ticket: Ticket

    def __call__(
        self,
        num_labels: int | None = None,
        *,
        seed: int = 0,
        base: str | None = None,
        revision: str | None = None,
    ) -> PreTrainedModel:
        """See ``start_model``."""
        return start_model(self.ticket, num_labels, seed=seed, base=base, revision=revision)


def start_model(
    ticket: Ticket,
    num_labels: int | None = None,
    *,
    seed: int = 0,
    base: str | None = None,
    revision: str | None = None,
) -> PreTrainedModel:
    """mask ⊙ start weights and a fresh task head of ``seed``, in transformers' classification class.

    Of a structured ticket the physically smaller model, without the heads and FFNs that it removes.
    ``num_labels`` is that of the ticket's own task if left out; 1 is a regression. ``base`` says where the
    base model is, if not where the ticket says; either way its weights must be the very ones of the ticket.
    """
    from tombola.models.build import HeadSpec, build_model, pretrained_fingerprint
    from tombola.models.resolve import resolve

    labels = num_labels if num_labels is not None else _own_labels(ticket)
    head = HeadSpec("regression" if labels == 1 else "classification", labels)
    name = base or ticket.model.get("source")
    if not isinstance(name, str):
        raise UsageError("the ticket does not say what its base model is", where="model", todo="give base=…")
    if base is None and ticket.model.get("kind") == "folder" and not Path(name).is_dir():
        raise UsageError(
            f"the ticket's base model is a folder called '{name}', which is not here",
            where="model",
            todo='say where it is: ticket.model(num_labels=…, base="path/to/it")',
        )
    source = resolve(name, revision or (None if base else ticket.model.get("revision")))
    found, own = pretrained_fingerprint(source), str(ticket.model.get("fingerprint"))
    if found != own:
        raise MaskMismatch(
            f"the ticket was drawn from another θ0 ({own[:12]}) than this model's ({found[:12]})",
            where=name,
            todo="a ticket starts from the pre-trained weights it was found in: give them with base=…",
        )
    model = build_model(source, head, start=_backbone_start(ticket), head_seed=seed)
    return _smaller(ticket, model) if ticket.is_structured else _masked(ticket, model)


def _masked(ticket: Ticket, model: PreTrainedModel) -> PreTrainedModel:
    """The model with the weights that the ticket prunes set to zero, in place."""
    from tombola.models.anatomy import anatomy_of, backbone_parameters

    applied = ticket.check_against(anatomy_of(model).shapes)
    parameters = backbone_parameters(model)
    with torch.no_grad():
        for matrix in applied.names:
            parameters[matrix].masked_fill_(~applied[matrix], 0.0)
    return model


def _smaller(ticket: Ticket, model: PreTrainedModel) -> PreTrainedModel:
    """The model without the parts that the ticket removes, of a class that saves and loads as it is."""
    from tombola.models.anatomy import anatomy_of
    from tombola.models.deployed import smaller

    if (found := anatomy_of(model).structure_sizes) != ticket.sizes:
        raise MaskMismatch(
            f"the ticket says other sizes of its full model ({ticket.sizes}) than it has ({found})",
            where="model.sizes",
            todo="what the ticket says of its remaining weight is not true: find it again, or ask whoever made it",
        )
    return smaller(model, ticket.structure)


def without_path(model: Mapping[str, Any]) -> dict[str, Any]:
    """The facts about a base model without the place it lay at: a path says nothing on another machine."""
    source = model.get("source")
    if isinstance(source, str) and (source.startswith(("/", "~", ".", "\\")) or "\\" in source):
        return {**model, "source": PurePath(source.replace("\\", "/")).name, "kind": "folder"}
    return dict(model)


def check_weights(ticket: Ticket, model: Any) -> None:
    """Refuse a trained model that is not the ticket's: it must lack what the ticket removes (SPEC 5, traps 10, 11)."""
    (_check_structure if ticket.is_structured else _check_zeros)(ticket, model)


def _check_structure(ticket: Ticket, model: Any) -> None:
    """The parts that are left are the ticket's, as counted in the model's own modules, and of the sizes it says."""
    from tombola.masks.structure_mask import StructureMask
    from tombola.models.anatomy import anatomy_of

    anatomy, wanted, sizes = anatomy_of(model), ticket.structure, ticket.sizes
    held = anatomy.structure or StructureMask.full(anatomy.heads_per_layer)
    same_sizes = [
        getattr(anatomy.sizes, name) == getattr(sizes, name) for name in ("hidden", "head_size", "inner")
    ]
    if held != wanted or not all(same_sizes):
        raise MaskMismatch(
            f"this model has other parts than the ticket keeps: {held}, the ticket {wanted}",
            where=type(model).__name__,
            todo="a ticket's trained model is the one that ticket.model(...) gave, after its training",
        )


def _check_zeros(ticket: Ticket, model: Any) -> None:
    """Every weight that the ticket prunes is zero."""
    from tombola.models.anatomy import anatomy_of, backbone_parameters

    applied = ticket.check_against(anatomy_of(model).shapes)
    held = WeightMask.of_weights(backbone_parameters(model), applied.names)
    for name in applied.names:
        if moved := int(torch.count_nonzero(held[name] & ~applied[name])):
            raise MaskMismatch(
                f"{moved} weights that the ticket prunes are not zero in this model",
                where=name,
                todo="a ticket's trained model is the one that was trained with its mask",
            )


def load_trained(ticket: Ticket, folder: Path) -> PreTrainedModel:
    """The trained model in ``folder``, whose files have been checked; it must lack what the ticket removes."""
    from transformers import AutoModelForSequenceClassification

    from tombola.models import deployed_loading

    _refuse_code(sorted(folder.glob("*.json")))
    if deployed_loading.holds_smaller_model(folder):
        model = deployed_loading.load(folder)
    else:
        try:
            model = AutoModelForSequenceClassification.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError) as error:
            raise CorruptArtifact(
                f"the trained model cannot be loaded ({error})", where=str(folder)
            ) from None
    check_weights(ticket, model)
    return model


def _refuse_code(settings: Iterable[Path]) -> None:
    for path in settings:
        try:
            plain = read_json(path)
        except ValueError as error:
            raise CorruptArtifact(f"{path.name} is not valid JSON ({error})", where=str(path)) from None
        if isinstance(plain, dict) and "auto_map" in plain:
            reason = f"{path.name} points at code of its own (auto_map), which tombola never runs"
            raise CorruptArtifact(reason, where=str(path))


def _own_labels(ticket: Ticket) -> int:
    task = ticket.task or {}
    if task.get("kind") == "regression":
        return 1
    labels = task.get("labels")
    if not isinstance(labels, list) or len(labels) < 2:
        raise UsageError(
            "the ticket's task does not say how many classes there are",
            where="num_labels",
            todo="give it: ticket.model(num_labels=2); 1 is a regression",
        )
    return len(labels)


def _backbone_start(ticket: Ticket) -> dict[str, torch.Tensor] | None:
    if ticket.start_state is None:
        return None
    return {name: tensor for name, tensor in ticket.start_state.items() if not name.startswith(HEAD)}
