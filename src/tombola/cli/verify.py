"""``tombola verify``: is it a winning ticket? Exit status 0 yes, 1 no, 2 an error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tombola.cli import options


def verify(
    ticket: Annotated[str, typer.Argument(help="Folder of the ticket, or a hub repository.")],
    seeds: options.Seeds = None,
    seed: options.Seed = None,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="full,random,reinit,shuffle,shuffle-within; of weight tickets also random-per-layer,magnitude.",
        ),
    ] = "full,random",
    criterion: Annotated[
        str,
        typer.Option(
            "--criterion", help="within_one_std, within_points:2, match_or_exceed or within_ratio:0.98."
        ),
    ] = "within_one_std",
    task: options.Task = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Where the base model is, if not where it was.")
    ] = None,
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
    precision: Annotated[str | None, typer.Option("--precision", help="fp32 or bf16 [the ticket's].")] = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    revision: options.Revision = None,
    engine: options.Engine = "inline",
    workers: options.Workers = None,
    address: options.Address = None,
    store: options.StoreDir = None,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Retrain the ticket over seeds beside the full model and the controls; say yes or no."""
    from tombola import api
    from tombola.cli.engines import engine_of, threads_for
    from tombola.cli.find import tell_work
    from tombola.cli.printing import print_json, print_verification, verification_json
    from tombola.cli.progress import reporter
    from tombola.tasks.task import DataOptions, overlap_warning
    from tombola.ticket import Ticket
    from tombola.verifying.criteria import parse

    running = engine_of(engine, workers, address)
    chosen_seeds = options.read_seeds(seeds, seed, default=5)
    rows = tuple(name.strip() for name in against.split(",") if name.strip())
    parse(criterion)
    loaded = Ticket.from_pretrained(ticket, revision=revision)
    recipe = {"epochs": epochs, "learning_rate": lr, "batch_size": batch_size, "max_length": max_length}
    settings = api.VerifySettings(
        seeds=chosen_seeds,
        against=rows,
        criterion=criterion,
        task=task,
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
        recipe_changes=tuple((key, value) for key, value in recipe.items() if value is not None),
        numerics=api.make_numerics(
            precision or api.precision_of(loaded), device, threads_for(engine, threads)
        ),
        model=model,
        revision=revision,
    )
    plan = api.plan_verify(loaded, ticket, settings)
    if dry_run:
        tell_work(plan.graph, store, as_json, {"ticket": str(Path(ticket))})
        return
    found_on, verified_on = str((loaded.task or {}).get("name")), plan.problem.task.name
    if found_on != verified_on and (warning := overlap_warning(found_on, verified_on)):
        typer.echo(f"tombola: note: {warning}", err=True)
    if api.same_data(loaded, plan.problem) is False:
        typer.echo("tombola: note: these are not the records that the ticket was found on", err=True)
    with reporter() as watching:
        found = api.run_verification(plan, settings, store, watching, running)
    if as_json:
        print_json(verification_json(found))
    else:
        print_verification(found)
    raise typer.Exit(0 if found.winning else 1)
