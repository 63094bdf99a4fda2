"""``tombola store``: what is in a store, whether it is whole, and what may be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tombola.cli import options

if TYPE_CHECKING:
    from pathlib import Path

    from tombola.engine.store import Run, Store

app = typer.Typer(
    help="List, show, verify and clean up stored runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("ls")
def ls(
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only steps of this kind (train, prune …).")
    ] = None,
    store: options.StoreDir = None,
    as_json: options.Json = False,
) -> None:
    """List the finished runs, and what is under way or was set aside."""
    from tombola.cli.printing import print_json, print_table
    from tombola.engine.held import is_held
    from tombola.engine.housekeeping import used_bytes

    opened = _opened(store)
    runs = [entry for entry in _entries(opened) if kind in (None, entry["step"])]
    running = sorted(path.name for path in (opened.root / "leases").iterdir() if is_held(path))
    waiting = sorted(path.name for path in (opened.root / "running").iterdir() if path.name not in running)
    aside = sorted(path.name for path in opened.root.glob("aside/*"))
    whole = used_bytes(opened)
    if as_json:
        found = {"runs": runs, "running": running, "interrupted": waiting, "set_aside": aside, "bytes": whole}
        print_json(found)
        return
    print_table(
        ("run", "step", "size", "seconds", "what"),
        [
            (
                entry["run"][:12],
                entry["step"],
                size(entry["bytes"]),
                _seconds(entry["seconds"]),
                entry["label"],
            )
            for entry in runs
        ],
    )
    typer.echo(
        f"{len(runs)} finished, {len(running)} running, {len(waiting)} interrupted, {len(aside)} set aside; "
        f"{size(whole)} in {opened.root}"
    )


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(help="Identity of a run, or its first digits.")],
    store: options.StoreDir = None,
    as_json: options.Json = False,
) -> None:
    """Show one run: what it computes, from what, what came out, when and where it was tried."""
    from tombola import files
    from tombola.cli.printing import print_json
    from tombola.engine import attempts

    opened = _opened(store)
    identity = whole_identity(opened, run)
    found = _finished(opened, identity)
    outputs = {
        name: {
            "bytes": output.size,
            "sha256": output.sha256,
            "transient": output.transient,
            "here": found.has(name),
        }
        for name, output in found.outputs.items()
    }
    told = {
        "run": identity,
        "folder": str(found.folder),
        "specification": files.read_json(found.folder / "spec.json"),
        "outputs": outputs,
        "environment": dict(found.environment),
        "substitutes": found.substitutes,
        "timing": opened.timing(identity),
        "attempts": [entry for entry in attempts.read(opened.root) if entry.get("run") == identity],
    }
    if "metrics.json" in found.outputs:
        told["metrics"] = opened.read_json((identity, "metrics.json"))
    if as_json:
        print_json(told)
        return
    import yaml

    typer.echo(yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=110).rstrip())


@app.command("verify")
def verify(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Identities or their first digits [all runs].")
    ] = None,
    store: options.StoreDir = None,
    as_json: options.Json = False,
) -> None:
    """Hash every file again. Damaged runs are set aside, to be computed anew; exit status 1 if there are any."""
    import warnings

    from tombola.cli.printing import print_json

    opened = _opened(store)
    chosen = [whole_identity(opened, run) for run in runs] if runs else list(opened)
    problems: dict[str, list[str]] = {}
    for identity in chosen:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = opened.verify(identity)
            if found and opened.folder(identity).exists():
                opened.set_aside(identity, found[0])
        if found:
            problems[identity] = [*found, *(str(entry.message) for entry in said)]
    if as_json:
        print_json({"verified": len(chosen), "damaged": problems})
    else:
        for lines in problems.values():
            typer.echo("\n".join(lines), err=True)
        typer.echo(
            f"{len(chosen)} runs hashed again: {len(chosen) - len(problems)} whole, {len(problems)} damaged"
        )
        if problems:
            typer.echo("to do: run the same study or command again; what was damaged is computed anew")
    raise typer.Exit(1 if problems else 0)


@app.command("gc")
def gc(
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Also of interrupted runs, which then begin again.")
    ] = False,
    aside: Annotated[
        bool, typer.Option("--aside", help="Also the damaged runs that were set aside.")
    ] = False,
    dry_run: options.DryRun = False,
    store: options.StoreDir = None,
    as_json: options.Json = False,
) -> None:
    """Delete what nothing waits for. Results stay; weights are made again, to the same bytes, if they are needed."""
    from tombola.cli.printing import print_json
    from tombola.engine.housekeeping import gc as sweep

    opened = _opened(store)
    swept = sweep(opened, checkpoints=checkpoints, aside=aside, dry_run=dry_run)
    if as_json:
        print_json(
            {
                "dropped": [f"{run}/{name}" for run, name in swept.dropped],
                "folders": [str(path) for path in swept.folders],
                "leftovers": [str(path) for path in swept.leftovers],
                "bytes": swept.bytes,
                "dry_run": dry_run,
            }
        )
        return
    typer.echo(
        f"{'would free' if dry_run else 'freed'} {size(swept.bytes)}: {len(swept.dropped)} outputs that can be made "
        f"again, {len(swept.folders)} folders, {len(swept.leftovers)} leftovers"
    )


@app.command("mirror")
def mirror(
    tracker: Annotated[str, typer.Argument(help="The tracker to tell: mlflow:URI.")],
    experiment: Annotated[
        str, typer.Option("--experiment", help="Where in it, a study's name for instance.")
    ] = "tombola",
    store: options.StoreDir = None,
    as_json: options.Json = False,
) -> None:
    """Tell a tracker of every finished run that it lacks; exit status 1 if it could not be told of some."""
    from tombola.cli.printing import print_json
    from tombola.engine.mirror import mirror_all, mirror_of

    opened = _opened(store)
    told = mirror_all(opened, mirror_of(tracker, experiment), say=lambda text: typer.echo(text, err=True))
    if as_json:
        print_json({"told": told.mirrored, "failed": told.failed})
    else:
        typer.echo(f"{told.mirrored} runs told, {told.failed} failed")
    raise typer.Exit(1 if told.failed else 0)


def whole_identity(store: Store, digits: str) -> str:
    """The one run whose identity begins with these digits."""
    from tombola.errors import UsageError

    found = [identity for identity in store.published() if identity.startswith(digits.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            f"no run begins with {digits}", where=str(store.root), todo="`tombola store ls` lists them"
        )
    raise UsageError(
        f"{len(found)} runs begin with {digits}",
        where=str(store.root),
        todo="give more digits of the one you mean",
    )


def size(count: int) -> str:
    """``812 B``, ``1.2 MB``."""
    number = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def _opened(store: Path | None) -> Store:
    """The store that is there: to look at a mistyped folder must not make a store of it."""
    from tombola import api
    from tombola.engine.store import PARTS, Store
    from tombola.errors import UsageError

    if store is not None and not any((store.expanduser() / part).is_dir() for part in PARTS):
        raise UsageError(
            "there is no store here",
            where=str(store),
            todo="check --store or TOMBOLA_STORE; `tombola find` and `tombola study` make one where they are told to",
        )
    return Store(store or api.default_store())


def _finished(store: Store, identity: str) -> Run:
    from tombola.errors import StoreError

    found = store.run(identity)
    if found is None:
        raise StoreError(
            f"run {identity[:12]} did not verify and was set aside",
            where=str(store.root / "aside"),
            todo="run the same command again: it is computed anew",
        )
    return found


def _entries(store: Store) -> list[dict[str, Any]]:
    """One line a finished run; what people call it stands in the attempts."""
    from tombola import files
    from tombola.engine import attempts

    labels = {
        entry["run"]: entry.get("label", "")
        for entry in attempts.read(store.root)
        if entry.get("event") == "began"
    }
    entries = []
    for identity in store:
        found = store.run(identity)
        if found is None:
            continue
        timing = store.timing(identity)
        entries.append(
            {
                "run": identity,
                "step": files.read_json(found.folder / "spec.json")["step"],
                "label": labels.get(identity, ""),
                "bytes": sum(output.size for name, output in found.outputs.items() if found.has(name)),
                "seconds": timing[-1].get("seconds") if timing else None,
            }
        )
    return entries


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
