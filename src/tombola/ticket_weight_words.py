"""What a block and a card say of a ticket with a mask of single weights: how sparse, where, and what it is not."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from tombola.models.families import FAMILIES
from tombola.ticket_mask import sparsity_without_optional
from tombola.ticket_text import Words, labels_of, percent, table

if TYPE_CHECKING:
    from tombola.ticket import Ticket

WHAT = (
    "A *lottery ticket* is a mask over the prunable weights of a pre-trained model, together with the "
    "weights it starts from: trained alone, all else zero, it is meant to do as well as the whole model."
)
WHICH = (
    "Sparsity is the share of *prunable* weights that are zero; embeddings, biases and layer norms are never "
    "pruned and not counted."
)
NOT_FASTER = (
    "An unstructured mask does not make dense kernels faster: the pruned weights are zeros that are still "
    "multiplied. It makes the model sparse, not smaller or quicker to run."
)


def weight_words(ticket: Ticket) -> Words:
    """Of a ticket whose mask is a WeightMask."""
    mask, below = ticket.weight_mask, ()
    if set(ticket.model.get("optional", ())) & set(mask.names):
        without = sparsity_without_optional(mask, ticket.model)
        below = (f"without the optional pooler: {percent(without)}",)
    count = labels_of(ticket.task)
    return Words(
        headline=f"{percent(mask.sparsity)} of {mask.size:,} prunable weights are zero ({len(mask)} matrices)",
        below=below,
        measured=(),
        picture=(),
        what=WHAT,
        load_trained=('trained = tombola.load("this-folder-or-repository")   # the trained model',),
        train=(
            f"model = ticket.model(num_labels={count})   # mask ⊙ start weights, fresh head: to be trained",
            "callback = tombola.TicketCallback(ticket)   # keeps the zeros zero in transformers' Trainer",
        ),
        speed=NOT_FASTER,
        section=("## Where it is sparse", _sparsity_table(ticket), WHICH),
    )


def _sparsity_table(ticket: Ticket) -> str:
    mask = ticket.weight_mask
    shapes = mask.shapes
    counts: dict[str, list[int]] = {}
    for name in mask.names:
        of_role = counts.setdefault(_role(name, ticket.model.get("family")) or name, [0, 0, 0])
        size = math.prod(shapes[name])
        of_role[0] += 1
        of_role[1] += round(size * mask.sparsity_of(name))
        of_role[2] += size
    rows = [[role, str(n), f"{size:,}", percent(zeros / size)] for role, (n, zeros, size) in counts.items()]
    rows.append(["**all**", str(len(mask)), f"{mask.size:,}", percent(mask.sparsity)])
    return table(["matrices", "how many", "weights", "sparsity"], rows)


def _role(name: str, family: Any) -> str | None:
    """The role of a matrix by its family's own adapter; None where the family is not known."""
    known = FAMILIES.get(family) if isinstance(family, str) else None
    if known is None:
        return None
    if known.pooler and name == f"{known.pooler}.weight":
        return "pooler"
    layer = re.escape(known.layer).replace(r"\{\}", r"\d+")
    for role, path in known.matrices.items():
        if re.fullmatch(rf"{layer}\.{re.escape(path)}\.weight", name):
            return role.replace("_", " ")
    return None
