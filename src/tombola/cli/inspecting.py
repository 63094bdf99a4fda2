"""``tombola inspect``: what a ticket is, without training anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tombola.cli import options

if TYPE_CHECKING:
    from tombola.ticket import Ticket


def inspect_ticket(
    ticket: Annotated[str, typer.Argument(help="Folder of the ticket, or a hub repository.")],
    revision: options.Revision = None,
    as_json: options.Json = False,
) -> None:
    """Show a ticket: where it came from, what it keeps of each matrix or layer, what was measured."""
    from tombola.cli.printing import print_json, print_table
    from tombola.ticket import Ticket

    loaded = Ticket.from_pretrained(ticket, revision=revision)
    if as_json:
        print_json(_as_json(loaded))
        return
    # A structured ticket draws its layers itself.
    typer.echo(str(loaded))
    if loaded.is_structured:
        return
    mask = loaded.weight_mask
    shapes = mask.shapes
    print_table(
        ("matrix", "shape", "sparsity"),
        [
            (name, " × ".join(str(length) for length in shapes[name]), f"{mask.sparsity_of(name):.1%}")
            for name in mask.names
        ],
    )


def _as_json(ticket: Ticket) -> dict[str, Any]:
    about = {
        "identity": ticket.identity,
        "model": ticket.model,
        "task": ticket.task,
        "method": ticket.method,
        "settings": ticket.settings,
        "start": ticket.start,
        "results": ticket.results,
        "about": ticket.about,
    }
    if ticket.is_structured:
        return {**about, **ticket.amount, "structure": ticket.structure.to_json()}
    mask = ticket.weight_mask
    return {
        **about,
        "sparsity": mask.sparsity,
        "zeros": mask.zeros,
        "prunable": mask.size,
        "per_tensor": {name: mask.sparsity_of(name) for name in mask.names},
    }
