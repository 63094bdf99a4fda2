"""``tombola study``: run recipes, leave their tables and figures. Exit status 1: some step could not be done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tombola.cli import options

if TYPE_CHECKING:
    from tombola.engine.protocol import Reporter
    from tombola.engine.store import Store
    from tombola.studies.study import Study


def study(
    recipes: Annotated[
        list[str], typer.Argument(help="Recipes that ship (`tombola recipes` lists them) or YAML files.")
    ],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: --set seeds=5 --set tasks.rte.max_train=500"),
    ] = None,
    data_dir: options.DataDir = None,
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = None,
    retries: Annotated[
        int, typer.Option("--retries", help="Further attempts at a step whose process died.")
    ] = 2,
    max_store_gb: Annotated[
        float | None,
        typer.Option("--max-store-gb", help="Begin nothing more while the store takes more than this."),
    ] = None,
    strict_environment: Annotated[
        bool,
        typer.Option(
            "--strict-environment", help="Refuse results made on another kind of machine or library version."
        ),
    ] = False,
    mirror: Annotated[
        str | None, typer.Option("--mirror", help="Tell a tracker too (mlflow:URI); it never stops a run.")
    ] = None,
    store: options.StoreDir = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of tables and figures [results/<recipe>].")
    ] = None,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Run studies and leave their tables and figures. Stop at any moment: the same command goes on."""
    from tombola import api
    from tombola.cli.engines import engine_of
    from tombola.cli.progress import reporter
    from tombola.cli.study_results import tell_plan, tell_results
    from tombola.engine.scheduling import Policy
    from tombola.engine.store import Store
    from tombola.studies.carrying_out import carry_out
    from tombola.studies.environments import refuse_other_environments

    chosen = engine_of(engine, workers, address)
    opened = Store(store or api.default_store())
    studies = read_studies(recipes, [*([f"data_dir={data_dir}"] if data_dir else []), *(changes or [])])
    if dry_run:
        tell_plan(studies, opened, as_json)
        return
    if strict_environment:
        refuse_other_environments(list(studies.values()), opened)
    policy = Policy(
        keep_going=True,
        retries=retries,
        max_store_bytes=None if max_store_gb is None else int(max_store_gb * 1e9),
    )
    with reporter() as watching, told_too(watching, opened, mirror, "+".join(studies)) as heard:
        outcome = carry_out(
            list(studies.values()),
            opened,
            lambda graph: chosen(graph, opened),
            heard,
            policy,
        )
    folders = {
        name: (out or Path("results")) / name if out is None or len(studies) > 1 else out for name in studies
    }
    tell_results(studies, opened, folders, outcome, as_json)
    if not outcome.complete:
        raise typer.Exit(1)


@contextmanager
def told_too(reporter: Reporter, store: Store, tracker: str | None, experiment: str) -> Iterator[Reporter]:
    """The reporter, and beside it the tracker that ``--mirror`` names."""
    if tracker is None:
        yield reporter
        return
    from tombola.engine.mirror import mirror_of
    from tombola.engine.mirrored import Mirrored

    def say(text: str) -> None:
        typer.echo(f"tombola: note: {text}\n  to do: tombola store mirror {tracker}", err=True)

    with Mirrored(reporter, store, mirror_of(tracker, experiment), say=say) as mirrored:
        yield mirrored


def read_studies(recipes: list[str], changes: list[str]) -> dict[str, Study]:
    """The studies of these recipes, by the recipe's name."""
    from tombola.errors import UsageError
    from tombola.studies.registry import find_recipe

    named = [find_recipe(name) for name in recipes]
    names = [recipe.name for recipe in named]
    if len(set(names)) < len(names):
        raise UsageError("a recipe is named twice", where="RECIPE", todo="name each once")
    return {recipe.name: recipe.kind.make(recipe.read(changes)) for recipe in named}
