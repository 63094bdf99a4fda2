"""``tombola find``: search for a ticket and leave it in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tombola.cli import options

if TYPE_CHECKING:
    from tombola.finding.search import Search
    from tombola.plan.graph import Graph
    from tombola.ticket import Ticket


def find(
    model: Annotated[
        str, typer.Argument(help="Hub id, folder, or embedded name; `tombola models` lists those.")
    ],
    task: options.Task = None,
    method: Annotated[str, typer.Option("--method", help="`tombola methods` lists them.")] = "imp",
    sparsity: Annotated[
        list[str] | None, typer.Option("--sparsity", help="0.7 or 70%; several with commas. [50%]")
    ] = None,
    levels: Annotated[
        list[str] | None,
        typer.Option("--levels", help="Of --method super: shares of heads and FFNs to remove. [10%,…,80%]"),
    ] = None,
    seeds: options.Seeds = None,
    seed: options.Seed = None,
    schedule: Annotated[
        str,
        typer.Option(
            "--schedule", help="linear (of the original weights), geometric (of the rest), one_shot."
        ),
    ] = "linear",
    step: Annotated[float | None, typer.Option("--step", help="Share pruned a round [0.1].")] = None,
    rewind: Annotated[
        str,
        typer.Option(
            "--rewind", help="0: pre-trained weights; 5%: weights after 5 % of training; standard: none."
        ),
    ] = "0",
    scope: Annotated[str, typer.Option("--scope", help="Of random masks: global or layer.")] = "global",
    ffn_rule: Annotated[
        str,
        typer.Option("--ffn-rule", help="How many FFNs go at a level: floor (the paper's text), authors."),
    ] = "floor",
    granularity: Annotated[
        str, typer.Option("--granularity", help="Of importance: example, token, or batch.")
    ] = "example",
    include_full: Annotated[
        bool, typer.Option("--include-full", help="The full model may win the choice of a level.")
    ] = False,
    stop_hopeless: Annotated[
        bool,
        typer.Option("--stop-hopeless", help="Train no higher level after two in a row far below the best."),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", help='Best level within "params<=0.5", "latency<=0.7", "latency@8x128<=0.7".'
        ),
    ] = None,
    keep_pooler: Annotated[
        bool, typer.Option("--keep-pooler", help="Never prune the pooler, which a global ranking may empty.")
    ] = False,
    data_dir: options.DataDir = None,
    data: options.Data = None,
    eval_data: options.EvalData = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    kind: options.Kind = None,
    max_train: options.MaxTrain = None,
    max_eval: options.MaxEval = None,
    epochs: options.Epochs = None,
    lr: options.LearningRate = None,
    batch_size: options.BatchSize = None,
    max_length: options.MaxLength = None,
    order: options.Order = "buckets",
    precision: options.Precision = "fp32",
    device: options.Device = "auto",
    threads: options.Threads = None,
    revision: options.Revision = None,
    engine: options.Engine = "inline",
    workers: options.Workers = None,
    address: options.Address = None,
    store: options.StoreDir = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the ticket [tickets/<task>-<method>-<sparsity>].")
    ] = None,
    with_model: Annotated[
        bool, typer.Option("--with-model", help="Put the trained model beside the ticket.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a ticket that is already there.")] = False,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Search for a ticket: with every seed train, prune, rewind; then measure it against the full model."""
    from tombola import api
    from tombola.cli.engines import engine_of, threads_for
    from tombola.cli.printing import print_json
    from tombola.cli.progress import reporter
    from tombola.finding.methods import get_method
    from tombola.tasks.task import DataOptions

    running = engine_of(engine, workers, address)
    chosen_seeds = options.read_seeds(seeds, seed)
    rewinding = options.read_rewind(rewind)
    search = api.plan_find(
        model,
        task=task,
        method=method,
        sparsities=options.read_shares(sparsity, "--sparsity"),
        levels=options.read_shares(levels, "--levels"),
        seeds=chosen_seeds,
        schedule=schedule,
        step=step,
        rewind=rewinding,
        scope=scope,
        ffn_rule=ffn_rule,
        granularity=granularity,
        include_full=include_full,
        keep_pooler=keep_pooler,
        data=DataOptions(
            data_dir=data_dir,
            data=data,
            eval_data=eval_data,
            text=text,
            text_pair=text_pair,
            label=label,
            kind=kind,
            max_train=max_train,
            max_eval=max_eval,
        ),
        recipe=api.make_recipe(
            task,
            method=get_method(method).name,
            epochs=epochs,
            learning_rate=lr,
            batch_size=batch_size,
            max_length=max_length,
            order=order,
        ),
        numerics=api.make_numerics(precision, device, threads_for(engine, threads)),
        revision=revision,
    )
    # What a verification has to be told again: a ticket holds no paths.
    base = model if search.problem.model.kind == "folder" else None
    own = data is not None
    again = {
        "--model": base,
        **{"--data": data, "--eval-data": eval_data, "--text": text, "--text-pair": text_pair},
        **{"--label": label, "--kind": kind, "--data-dir": data_dir, "--store": store, "--threads": threads},
        **{"--max-train": max_train if own else None, "--max-eval": max_eval if own else None},
        **{"--engine": None if engine == "inline" else engine, "--workers": workers, "--address": address},
        "--device": None if device == "auto" else device,
    }
    if search.choices:
        from tombola.cli.find_super import find_super

        find_super(
            search,
            running,
            store,
            out,
            stop_hopeless=stop_hopeless,
            budget=budget,
            force=force,
            dry_run=dry_run,
            as_json=as_json,
            again=again,
        )
        return
    refuse_of_levels(stop_hopeless=stop_hopeless, budget=budget)
    folders = {share: out_folder(search, share, out) for share in search.settings.sparsities}
    if dry_run:
        tell_work(search.graph, store, as_json, {"folders": [str(folder) for folder in folders.values()]})
        return
    refuse_existing(list(folders.values()), force)
    with reporter() as watching:
        tickets = api.run_search(search, store, watching, with_model=with_model, engine=running)
    for ticket, folder in zip(tickets, folders.values(), strict=True):
        trained = api.trained_model(search, ticket.settings["sparsity"], store) if with_model else None
        ticket.save_pretrained(folder, force=force, model=trained)
        if ticket.weight_mask.emptied:
            tell_emptied(ticket, folder)
    if as_json:
        print_json(
            [_as_json(ticket, folder) for ticket, folder in zip(tickets, folders.values(), strict=True)]
        )
        return
    for ticket, folder in zip(tickets, folders.values(), strict=True):
        typer.echo(str(ticket))
        typer.echo(
            f"saved in {folder}\n  check it:  {verify_line(folder, again)}\n  load it:   {load_line(folder, base)}\n"
        )


def refuse_of_levels(*, stop_hopeless: bool, budget: str | None) -> None:
    """Options that only a choice among levels can obey."""
    from tombola.errors import UsageError

    for option, given in (("--stop-hopeless", stop_hopeless), ("--budget", budget)):
        if given:
            raise UsageError(
                "this method makes no levels to choose from", where=option, todo="use --method super"
            )


def load_line(folder: Path, base: str | None = None) -> str:
    """The Python that gives the model to start from."""
    return f'tombola.Ticket.from_pretrained("{folder}").model({f"base={base!r}" if base else ""})'


def verify_line(folder: Path, again: dict[str, object]) -> str:
    """The command that verifies the ticket where it was found."""
    import shlex

    told = [part for option, value in again.items() if value is not None for part in (option, str(value))]
    return shlex.join(["tombola", "verify", str(folder), *told])


def tell_emptied(ticket: Ticket, folder: Path) -> None:
    """A matrix with next to no weights lets nothing through: often the reason for a ticket at chance level."""
    names = ticket.weight_mask.emptied
    shares = ", ".join(f"{ticket.weight_mask.sparsity_of(name):.1%} of {name}" for name in names)
    todo = "a lower sparsity"
    if set(names) & set(ticket.model.get("optional", ())):
        todo += ", or --keep-pooler"
    typer.echo(
        f"tombola: note: the mask removes {shares}\n  where: {folder}\n  to do: {todo}",
        err=True,
    )


def out_folder(search: Search, sparsity: float, out: Path | None) -> Path:
    """``tickets/<task>-<method>-<sparsity>``, or ``--out`` (with the sparsity behind it where there are several)."""
    percent = f"{sparsity * 100:g}".replace(".", "_")
    if out is None:
        return Path("tickets") / f"{search.problem.task.name}-{search.method}-{percent}"
    out = out.resolve()
    return out if len(search.settings.sparsities) == 1 else out.with_name(f"{out.name}-{percent}")


def refuse_existing(folders: list[Path], force: bool) -> None:
    """Before hours of work, not after: something there, or a place where nothing can be written."""
    import os

    from tombola.errors import UsageError
    from tombola.ticket_folder import refuse_replacing

    for folder in folders:
        refuse_replacing(folder, force)
        parent = next(place for place in (folder, *folder.parents) if place.exists())
        if not os.access(parent, os.W_OK):
            raise UsageError(
                "nothing can be written there", where=str(folder), todo="choose another place with --out"
            )


def tell_work(graph: Graph, store: Path | None, as_json: bool, more: dict[str, Any]) -> None:
    """What a run would do: steps, disk, time."""
    from tombola import api
    from tombola.cli.printing import print_json

    work = api.estimate(graph, store)
    if as_json:
        print_json({**work, **more})
        return
    tell_estimate(work)


def tell_estimate(work: dict[str, Any]) -> None:
    """Steps, disk and time in words."""
    from tombola.cli.progress import duration

    typer.echo(f"{work['steps']} steps, {work['done']} done before, {work['trainings']} trainings to run")
    typer.echo(f"{work['optimizer_steps']:,} optimizer steps")
    typer.echo(
        f"disk: {work['disk_bytes'] / 1e6:,.0f} MB at most while it runs, {work['kept_bytes'] / 1e6:,.1f} MB after"
    )
    seconds = work["seconds"]
    typer.echo(
        f"time: about {duration(seconds)} ({work['seconds_from']})"
        if seconds is not None
        else "time: nothing to do"
    )


def _as_json(ticket: Ticket, folder: Path) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "identity": ticket.identity,
        "sparsity": ticket.sparsity,
        "method": ticket.method,
        "model": ticket.model,
        "task": ticket.task,
        "settings": ticket.settings,
        "results": ticket.results,
    }
