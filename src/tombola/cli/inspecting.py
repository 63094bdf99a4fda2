"""``tombola inspect``: what a ticket is, without training anything."""

from __future__ import annotations

from typing import Annotated

import typer

from tombola.cli import options


def inspect_ticket(
    ticket: Annotated[str, typer.Argument(help="Folder of the ticket, or a hub repository.")],
    revision: options.Revision = None,
    as_json: options.Json = False,
) -> None:
    """Show a ticket: where it came from, how sparse each matrix is, what was measured."""
    from tombola.cli.printing import print_json, print_table
    from tombola.ticket import Ticket

    loaded = Ticket.from_pretrained(ticket, revision=revision)
    mask = loaded.mask
    if as_json:
        print_json(
            {
                "identity": loaded.identity,
                "sparsity": mask.sparsity,
                "zeros": mask.zeros,
                "prunable": mask.size,
                "per_tensor": {name: mask.sparsity_of(name) for name in mask.names},
                "model": loaded.model,
                "task": loaded.task,
                "method": loaded.method,
                "settings": loaded.settings,
                "start": loaded.start,
                "results": loaded.results,
            }
        )
        return
    typer.echo(str(loaded))
    shapes = mask.shapes
    print_table(
        ("matrix", "shape", "sparsity"),
        [
            (name, " × ".join(str(length) for length in shapes[name]), f"{mask.sparsity_of(name):.1%}")
            for name in mask.names
        ],
    )
