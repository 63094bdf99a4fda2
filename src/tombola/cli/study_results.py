"""What ``tombola study`` says: the plan of a dry run, and at the end the tables, where they are, and what failed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph
    from tombola.studies.carrying_out import Outcome
    from tombola.studies.study import Study


def tell_plan(studies: Mapping[str, Study], store: Store, as_json: bool) -> None:
    """A dry run: steps, done ones, disk and time; with several recipes also what sharing saves."""
    from tombola.cli.find import tell_estimate
    from tombola.cli.printing import print_json
    from tombola.engine.estimate import estimate
    from tombola.studies.carrying_out import StoreKnows, planned

    known = StoreKnows(store)
    whole = planned(list(studies.values()), known)
    work = estimate(whole.graph, store)
    apart = {name: _trainings(planned([one], known).graph) for name, one in studies.items()}
    together = _trainings(whole.graph)
    if as_json:
        print_json(
            {**work, "later_trainings_at_most": whole.later, "all_trainings": together, "apart": apart}
        )
        return
    tell_estimate(work)
    if whole.later:
        typer.echo(f"at most {whole.later} trainings may follow: which ones, the first results decide")
    if len(studies) > 1:
        typer.echo(
            f"{together} trainings together; each recipe by itself: "
            f"{', '.join(f'{name} {count}' for name, count in apart.items())}, {sum(apart.values())} in all"
        )


def tell_results(
    studies: Mapping[str, Study], store: Store, folders: Mapping[str, Path], outcome: Outcome, as_json: bool
) -> None:
    """Write every study's tables and figures, print the tables, name what failed and how to go on."""
    from tombola.cli.printing import print_json
    from tombola.report.tables import to_json, to_text
    from tombola.report.writing import write_artefacts
    from tombola.studies.artefact import Table
    from tombola.studies.carrying_out import StoreKnows
    from tombola.studies.environments import mixed_environments

    known = StoreKnows(store)
    document: dict[str, Any] = {}
    for name, one in studies.items():
        found = one.artefacts(known)
        notes = mixed_environments([one], store)
        write_artefacts(found, folders[name], title=name, notes=notes)
        tables = [artefact for artefact in found if isinstance(artefact, Table)]
        document[name] = {
            "folder": str(folders[name]),
            "notes": list(notes),
            "tables": [to_json(table) for table in tables],
        }
        if not as_json:
            for table in tables:
                if table.name != "runs":
                    typer.echo(to_text(table, _width()))
            for note in notes:
                typer.echo(f"tombola: note: {note}", err=True)
            typer.echo(f"{name}: tables and figures are in {folders[name]} (begin with index.md)")
    if as_json:
        failed = [
            {"run": f.step.identity, "step": f.step.label, "what": f.failure.what} for f in outcome.failed
        ]
        print_json(
            {"studies": document, "ran": outcome.ran, "failed": failed, "blocked": len(outcome.blocked)}
        )
    tell_failures(outcome)


def tell_failures(outcome: Outcome) -> None:
    """Which steps failed, why, what could not begin for that, and how to try again."""
    for entry in outcome.failed:
        typer.echo(
            f"tombola: FAILED {entry.step.label} ({entry.step.identity[:12]}): {entry.failure.raised()}",
            err=True,
        )
    if outcome.blocked:
        typer.echo(f"tombola: {len(outcome.blocked)} steps that read these could not begin", err=True)
    if not outcome.complete:
        typer.echo(
            "tombola: everything else is done and kept\n  to do: mend the cause, then type the same command again: "
            "only what failed is tried",
            err=True,
        )


def _trainings(graph: Graph) -> int:
    return sum(step.kind == "train" for step in graph.steps)


def _width() -> int:
    import shutil
    import sys

    from tombola.cli.printing import WIDTH

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
