"""The command: every verb in a file of its own, loaded only when it runs, and one place for errors.

``tombola --help`` and ``tombola VERB --help`` import neither torch nor transformers: the verbs' modules import them
inside their functions.
"""

from __future__ import annotations

import json
import os
import sys

import typer

from tombola import __version__
from tombola.cli import bench, export, find, inspecting, listing, quickstart, store, study, verify
from tombola.errors import TombolaError

app = typer.Typer(
    name="tombola",
    help="Find, verify and share lottery tickets in pre-trained models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tombola {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Find, verify and share lottery tickets in pre-trained models."""


app.command("quickstart")(quickstart.quickstart)
app.command("find")(find.find)
app.command("verify")(verify.verify)
app.command("bench")(bench.bench)
app.command("export")(export.export)
app.command("study")(study.study)
app.command("recipes")(listing.recipes)
app.command("inspect")(inspecting.inspect_ticket)
app.add_typer(store.app, name="store")
app.command("tasks")(listing.tasks)
app.command("models")(listing.models)
app.command("methods")(listing.methods)


def main() -> None:
    """Run the command; every expected mistake ends as what, where, what to do, with exit status 2."""
    # Warnings of the libraries below are about their insides; the messages a user needs are ours.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except TombolaError as error:
        if "--json" in sys.argv:
            print(json.dumps({"error": {"what": error.what, "where": error.where, "to_do": error.todo}}))
        print(f"tombola: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        place = f"\n  where: {error.filename}" if error.filename else ""
        print(
            f"tombola: {error.strerror or error}{place}\n  to do: check space and rights there",
            file=sys.stderr,
        )
        sys.exit(2)
    except Exception:
        # Exit status 1 is an answer (`verify`: no). A mistake of ours must not look like one.
        import traceback

        traceback.print_exc()
        print("tombola: this is a bug; please report it with the lines above", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
