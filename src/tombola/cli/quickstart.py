"""``tombola quickstart``: the whole journey on a real model and real data, in minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tombola.cli import options

#: Small enough for minutes on two CPU cores, large enough that a ticket beats a random mask by far.
SETTINGS = {
    "model": "minilm-l6",
    "task": "rotten-tomatoes",
    "max_train": 2400,
    "sparsity": 0.4,
    "epochs": 2,
    "learning_rate": 5e-5,
    "max_length": 64,
    "schedule": "one_shot",
    # This encoder's pooler was never trained: a ranking by magnitude would empty it (docs/results.md).
    "keep_pooler": True,
    "precision": "bf16",
}


DEFAULT_OUT = Path("tickets/quickstart")
#: Levels of the super ticket at the end: a smaller model that is really faster.
LEVELS = (0.1, 0.2, 0.3, 0.4)
#: Of the paper's criteria the one that three seeds can decide.
CRITERION = "within_points:2"


def quickstart(
    seeds: options.Seeds = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the ticket.")] = DEFAULT_OUT,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a ticket in a folder of your own choice.")
    ] = False,
    device: options.Device = "auto",
    threads: options.Threads = None,
    store: options.StoreDir = None,
    as_json: options.Json = False,
) -> None:
    """Find a winning ticket in a real pre-trained model, verify it; then a super ticket: a smaller, faster model."""
    from tombola import api
    from tombola.cli import find_super
    from tombola.cli.find import load_line, refuse_existing
    from tombola.cli.printing import print_json, print_verification, verification_json
    from tombola.cli.progress import reporter
    from tombola.super_search import scored
    from tombola.tasks.task import DataOptions

    # The default folder is the quickstart's own: it may be run again.
    own = out == DEFAULT_OUT
    smaller = out.with_name(f"{out.name}-super")
    refuse_existing([out, smaller], force or own)
    chosen = options.read_seeds(seeds, None, default=3)
    recipe = api.make_recipe(
        SETTINGS["task"],
        epochs=SETTINGS["epochs"],
        learning_rate=SETTINGS["learning_rate"],
        max_length=SETTINGS["max_length"],
    )
    numerics = api.make_numerics(SETTINGS["precision"], device, threads)
    data = DataOptions(max_train=SETTINGS["max_train"])
    common = {
        "task": SETTINGS["task"],
        "seeds": chosen[:1],
        "keep_pooler": SETTINGS["keep_pooler"],
        "data": data,
        "recipe": recipe,
        "numerics": numerics,
    }
    search = api.plan_find(
        SETTINGS["model"], sparsities=(SETTINGS["sparsity"],), schedule=SETTINGS["schedule"], **common
    )
    levels = api.plan_find(SETTINGS["model"], method="super", levels=LEVELS, **common)
    if not as_json:
        typer.echo(
            f"Searching a {SETTINGS['sparsity']:.0%} ticket in {SETTINGS['model']} on {SETTINGS['task']} "
            f"({SETTINGS['max_train']} sentences, {SETTINGS['epochs']} epochs), then verifying it over "
            f"{len(chosen)} seeds."
        )
    with reporter() as watching:
        (ticket,), found = api.find_and_verify(
            search, chosen, CRITERION, store, watching, also=scored(levels)
        )
    ticket.save_pretrained(out, force=force or own)
    if not as_json:
        typer.echo("")
        print_verification(found)
        typer.echo(
            f"\nThe ticket is in {out}. Load it in Python:\n  import tombola\n  model = {load_line(out)}\n"
        )
        shares = ", ".join(f"{level:.0%}" for level in LEVELS)
        typer.echo(f"Now a super ticket: {shares} of the heads and FFNs removed, the best level kept.")
    with reporter() as watching:
        super_found = api.run_super(levels, store, watching)
    saved = find_super.save(
        super_found.ticket, super_found.models, levels.problem, smaller, force=force or own
    )
    report = smaller.with_name(f"{smaller.name}-report")
    written = find_super.draw(super_found, report)
    if as_json:
        print_json(
            {
                "folder": str(out),
                "ticket": ticket.identity,
                "verification": verification_json(found),
                "super": find_super.as_document(super_found, saved, smaller, written),
            }
        )
        return
    find_super.tell(super_found, saved, smaller, report, {})
