"""``tombola export``: a trained ticket for another runtime, its answers compared with torch's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tombola.cli import options

if TYPE_CHECKING:
    from tombola.deploy.onnx_folder import Export
    from tombola.deploy.subject import Subject

FORMATS = ("onnx",)


def export(
    ticket: Annotated[
        str, typer.Argument(help="Folder of a ticket with its model, or of a model; or a hub repository.")
    ],
    to: Annotated[str, typer.Option("--to", help="The format: onnx.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write [<ticket>-onnx].")] = None,
    opset: Annotated[int | None, typer.Option("--opset", help="ONNX operator set, 18 to 23. [20]")] = None,
    quantize: Annotated[
        str | None,
        typer.Option("--quantize", help="int8: a second file, its accuracy measured on the development set."),
    ] = None,
    task: options.Task = None,
    data_dir: options.DataDir = None,
    data: options.Data = None,
    eval_data: options.EvalData = None,
    text: options.Text = None,
    text_pair: options.TextPair = None,
    label: options.Label = None,
    kind: options.Kind = None,
    max_eval: options.MaxEval = None,
    max_length: options.MaxLength = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Where the base model is, if not where it was.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="CPU threads [cores, 8 at most].")] = None,
    revision: options.Revision = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is already there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the trained model as ONNX; nothing is left if its answers differ from torch's."""
    from tombola.errors import UsageError, nearest

    if to not in FORMATS:
        raise UsageError(f"there is no format '{to}'", where="--to", todo=nearest(to, list(FORMATS)))
    from tombola import api
    from tombola.cli.printing import print_json
    from tombola.deploy.onnx_export import OPSET
    from tombola.deploy.onnx_folder import export_onnx, refuse_replacing
    from tombola.deploy.onnx_session import require_onnx
    from tombola.deploy.quantisation import check_kind
    from tombola.deploy.subject import open_subject
    from tombola.deploy.ticket_scoring import scoring_of
    from tombola.tasks.task import DataOptions

    require_onnx()
    if quantize is not None:
        check_kind(quantize)
    folder = out or _beside(ticket)
    refuse_replacing(folder.expanduser().resolve(), force)
    cores = api.make_numerics(device="cpu", threads=threads).threads
    subject = open_subject(ticket, revision=revision)
    prepares = _preparing(subject, model)
    scoring, same = None, None
    if quantize is not None:
        asked = DataOptions(
            data_dir=data_dir,
            data=data,
            eval_data=eval_data,
            text=text,
            text_pair=text_pair,
            label=label,
            kind=kind,
            max_eval=max_eval,
        )
        scoring, same = scoring_of(subject, prepares, task=task, options=asked, max_length=max_length)
    written = export_onnx(
        subject.model,
        folder,
        tokenizer=prepares,
        opset=opset or OPSET,
        quantize=quantize,
        scoring=scoring,
        origin=_origin(subject),
        threads=cores,
        force=force,
    )
    if same is False:
        typer.echo("tombola: note: these are not the records that the ticket was found on", err=True)
    if as_json:
        print_json({"folder": str(folder), "export": dict(written.described)})
    else:
        _print(subject, written)


def _beside(ticket: str) -> Path:
    """``<ticket>-onnx`` beside the ticket; of a hub repository in the current folder."""
    path = Path(ticket).expanduser()
    return (
        path.resolve().with_name(f"{path.resolve().name}-onnx")
        if path.exists()
        else Path(f"{path.name}-onnx")
    )


def _preparing(subject: Subject, base: str | None) -> Any:
    """The tokenizer, or the image processor where there is one."""
    from tombola.deploy.inputs import inputs_of
    from tombola.deploy.subject import tokenizer_of

    return tokenizer_of(subject, base) if inputs_of(subject.model).picture is None else None


def _origin(subject: Subject) -> dict[str, Any]:
    if subject.ticket is None:
        return {"kind": "model"}
    return {
        "kind": "ticket",
        "identity": subject.ticket.identity,
        "task": (subject.ticket.task or {}).get("name"),
    }


def _print(subject: Subject, export: Export) -> None:
    from tombola.cli.printing import print_table
    from tombola.deploy.onnx_export import TOLERANCE

    written, quantised = export.written, export.quantised
    free = ", ".join(next(iter(written.axes.values())).values())
    print(subject.said())
    print(f"model.onnx: {_size(export.bytes)}, opset {written.opset}, free axes: {free}")
    print(f"  {', '.join(written.inputs)} -> {', '.join(written.outputs)}")
    print(
        f"answers of onnxruntime and torch differ by {written.difference:.1e} at most "
        f"({len(written.cases)} batches; allowed {TOLERANCE:.0e})"
    )
    if quantised is not None:
        print(
            f"{quantised.kind}, on {quantised.examples} development examples of {quantised.task}, "
            f"{quantised.batch_size} at once:"
        )
        rows = [
            ("fp32", _size(quantised.bytes_before), *(f"{value:.2f}" for value in quantised.before.values())),
            (
                quantised.kind,
                _size(quantised.bytes_after),
                *(f"{value:.2f}" for value in quantised.after.values()),
            ),
        ]
        print_table(("", "size", *quantised.before), rows)
    print(f"saved in {export.folder}")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
