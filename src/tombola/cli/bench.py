"""``tombola bench``: how fast a ticket's model is beside the full one, measured here and now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tombola.cli import options

if TYPE_CHECKING:
    from tombola.deploy.latency import Cell, LatencyTable
    from tombola.deploy.subject import Subject


def bench(
    ticket: Annotated[
        str, typer.Argument(help="Folder of a ticket or a model, a ticket on the hub, or an embedded name.")
    ],
    batch: Annotated[
        list[int] | None, typer.Option("--batch", help="Examples at once; repeat it. [1 8 32]")
    ] = None,
    length: Annotated[
        list[int] | None, typer.Option("--length", help="Tokens an example; repeat it. [32 128]")
    ] = None,
    runtime: Annotated[
        list[str] | None, typer.Option("--runtime", help="torch or onnxruntime; repeat it. [torch]")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", help="Another model's folder or name [the full model of the same class]."),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", help="Interleaved pairs a cell.")] = 20,
    precision: Annotated[
        str, typer.Option("--precision", help="fp32, or bf16: the weights themselves in bf16.")
    ] = "fp32",
    device: options.Device = "auto",
    threads: Annotated[int | None, typer.Option("--threads", help="CPU threads [cores, 8 at most].")] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Where the base model is, if not where it was.")
    ] = None,
    revision: options.Revision = None,
    as_json: options.Json = False,
) -> None:
    """Measure latency and throughput: the ticket's model and the full one in turns, on the same batches."""
    from tombola import api
    from tombola.cli.printing import print_json
    from tombola.deploy.latency import BATCHES, LENGTHS
    from tombola.deploy.runtimes import check_runtime, latency_in
    from tombola.deploy.subject import UNSTRUCTURED, dense_twin, open_subject

    numerics = api.make_numerics(precision, device, threads)
    runtimes = tuple(dict.fromkeys(runtime or ["torch"]))
    for name in runtimes:
        check_runtime(name, numerics.device, precision)
    subject = open_subject(ticket, revision=revision, base=model, trained=False)
    models: dict[str, Any] = {}
    if against is not None:
        models["against"] = open_subject(against, trained=False).model
    elif subject.ticket is not None or subject.smaller:
        models["full"] = dense_twin(subject.model)
    models["ticket" if subject.ticket is not None else "model"] = subject.model
    note = UNSTRUCTURED if subject.ticket is not None and not subject.ticket.is_structured else None
    batches, lengths = tuple(batch or BATCHES), tuple(length or LENGTHS)
    tables = {}
    for name in runtimes:
        with _telling(name, len(set(batches)) * len(set(lengths))) as told:
            tables[name] = latency_in(
                name,
                models,
                batches=batches,
                lengths=lengths,
                repeats=repeats,
                threads=numerics.threads,
                device=numerics.device,
                precision=precision,
                told=told,
            )
    if as_json:
        measured = {name: table.to_json() for name, table in tables.items()}
        print_json({"model": subject.said(), "note": note, "runtimes": measured})
        return
    _print(subject, note, tables)


def _print(subject: Subject, note: str | None, tables: dict[str, LatencyTable]) -> None:
    from tombola.cli.printing import print_table

    print(subject.said())
    if note:
        print(note)
    for name, table in tables.items():
        print(f"\n{name}: {table.surroundings}")
        print(f"median of {table.repeats} interleaved runs (IQR), after {table.warm_up} that do not count")
        others = [other for other in table.names if other != table.reference]
        columns = ["batch", "length", *(f"{each}, ms" for each in table.names)]
        columns += [f"{other} ÷ {table.reference} [95 %]" for other in others]
        columns += [f"{each}, examples/s" for each in table.names]
        print_table(columns, [_cells(table, cell) for cell in table.cells])


def _cells(table: LatencyTable, cell: Cell) -> list[str]:
    times = [cell.timings[name] for name in table.names]
    return [
        str(cell.batch),
        str(cell.length),
        *(f"{1e3 * time.median:.2f} ({1e3 * time.iqr:.2f})" for time in times),
        *(str(cell.ratio(name, table.reference)) for name in table.names if name != table.reference),
        *(f"{cell.throughput(name):,.1f}" for name in table.names),
    ]


@contextmanager
def _telling(name: str, cells: int) -> Iterator[Callable[[Cell], object]]:
    """A bar on a terminal, a line a cell elsewhere; both on stderr."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=cells)
            yield lambda cell: bar.advance(task)
        return
    yield lambda cell: typer.echo(f"{name}: batch {cell.batch} × {cell.length} measured", err=True)
