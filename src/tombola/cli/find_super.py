"""The end of ``tombola find --method super``: the ticket with its trained smaller model, its phases, its speed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tombola.api import Engine
    from tombola.finding.search import Search
    from tombola.plan.problem import Problem
    from tombola.super_search import FoundSuper, TrainedModels
    from tombola.ticket import Ticket

#: Where the latency table of the ticket is measured: one question, and a batch.
BATCHES, LENGTHS = (1, 32), (32, 128)


def find_super(
    search: Search,
    engine: Engine | None,
    store: Path | None,
    out: Path | None,
    *,
    stop_hopeless: bool,
    budget: str | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
    again: dict[str, object],
) -> None:
    """Search, save, measure, draw, tell."""
    from tombola import api
    from tombola.cli.find import refuse_existing, tell_work
    from tombola.cli.printing import print_json
    from tombola.cli.progress import reporter
    from tombola.finding.levels import read_budget

    if budget is not None:
        read_budget(budget)  # before hours of work, not after
    folder = (out or Path("tickets") / f"{search.problem.task.name}-super").resolve()
    report = folder.with_name(f"{folder.name}-report")
    if dry_run:
        tell_work(search.graph, store, as_json, {"folders": [str(folder), str(report)]})
        return
    refuse_existing([folder], force)
    with reporter() as watching:
        found = api.run_super(
            search, store, watching, stop_hopeless=stop_hopeless, budget=budget, engine=engine
        )
    saved = save(found.ticket, found.models, search.problem, folder, force=force)
    written = draw(found, report)
    if as_json:
        print_json(as_document(found, saved, folder, written))
        return
    tell(found, saved, folder, report, again)


def save(
    ticket: Ticket, models: TrainedModels | None, problem: Problem, folder: Path, *, force: bool
) -> Ticket:
    """Measure the models beside each other, and write the ticket with the trained model and its tokenizer."""
    from dataclasses import replace

    from tombola.deploy.latency import latency
    from tombola.models.build import load_tokenizer
    from tombola.plan.materials import model_source

    if models is None:
        raise ValueError("a super ticket is saved with its trained model")
    numerics = problem.numerics
    measured = latency(
        {"full": models.full, "ticket": models.ticket},
        batches=BATCHES,
        lengths=[length for length in LENGTHS if length <= (problem.model.longest_input or length)],
        threads=numerics.threads,
        device=numerics.device,
        precision=numerics.precision,
    )
    told = replace(ticket, about={**ticket.about, "latency": measured.to_json()})
    source = model_source(problem.model.source, problem.model.fingerprint)
    told.save_pretrained(folder, force=force, model=models.ticket, tokenizer=load_tokenizer(source))
    return told


def draw(found: FoundSuper, report: Path) -> list[Path]:
    """The phases of this search: score against remaining weight."""
    from tombola.report.figures import write_figure
    from tombola.studies.search_phases import phases_figure

    return write_figure(phases_figure(found.outcome), report)


def as_document(found: FoundSuper, ticket: Ticket, folder: Path, written: list[Path]) -> dict[str, Any]:
    """The one JSON document."""
    return {
        "folder": str(folder),
        "identity": ticket.identity,
        "method": ticket.method,
        "level": found.outcome.first,
        "remaining": found.outcome.remaining(found.outcome.first),
        "model": ticket.model,
        "task": ticket.task,
        "settings": ticket.settings,
        "results": ticket.results,
        "latency": ticket.about["latency"],
        "figures": [str(path) for path in written],
    }


def tell(found: FoundSuper, ticket: Ticket, folder: Path, report: Path, again: dict[str, object]) -> None:
    """Levels, the ticket, its speed, and what can be done with it."""
    from tombola.cli.find import verify_line
    from tombola.cli.printing import print_table

    outcome = found.outcome
    chosen = [choice.chosen for choice in outcome.choices.values()]
    rows = []
    for row in outcome.curve():
        std = "" if row["std"] is None else f" ± {row['std']:.1f}"
        times = chosen.count(row["level"])
        rows.append(
            (
                f"{row['level']:.0%}" if row["level"] else "full",
                str(row["heads_removed"]),
                str(row["ffns_removed"]),
                f"{row['remaining']:.1%}",
                f"{row['mean']:.1f}{std}",
                f"chosen by {times} of {len(chosen)} seeds" if times else "",
            )
        )
    typer.echo("")
    print_table(("level", "heads gone", "FFNs gone", "remaining", "dev", ""), rows)
    typer.echo(str(ticket))
    typer.echo(
        f"saved in {folder}\n"
        f"  load it:   tombola.load({str(folder)!r})\n"
        f"  check it:  {verify_line(folder, again)}\n"
        f"  figures:   {report}\n"
    )
