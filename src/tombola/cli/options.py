"""The options that several verbs share, each spelled and explained once, and how their texts are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tombola.errors import UsageError

Task = Annotated[str | None, typer.Option("--task", help="A shipped task; `tombola tasks` lists them.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Your own training file: csv, tsv, jsonl or parquet.")
]
EvalData = Annotated[
    Path | None, typer.Option("--eval-data", help="Your own development file (else 10 % of --data).")
]
Text = Annotated[str | None, typer.Option("--text", help="Column of the text.")]
TextPair = Annotated[str | None, typer.Option("--text-pair", help="Column of a second text.")]
Label = Annotated[str | None, typer.Option("--label", help="Column of the label: classes or numbers.")]
Kind = Annotated[
    str | None, typer.Option("--kind", help="classification or regression, if looking is not enough.")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with the benchmark's own files (GLUE, SNLI, SciTail)."),
]
MaxTrain = Annotated[
    int | None, typer.Option("--max-train", help="Train on a fixed random subset of this size.")
]
MaxEval = Annotated[
    int | None, typer.Option("--max-eval", help="Score on a fixed random subset of this size.")
]
Seeds = Annotated[str | None, typer.Option("--seeds", help="5 means seeds 0…4; 3,7 means those two.")]
Seed = Annotated[int | None, typer.Option("--seed", help="One seed, this one.")]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Epochs of one training [the task's own].")]
LearningRate = Annotated[float | None, typer.Option("--lr", help="Learning rate [the task's own].")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Examples a step [the task's own].")]
MaxLength = Annotated[
    int | None, typer.Option("--max-length", help="Tokens an example at most [the task's own].")
]
Order = Annotated[
    str, typer.Option("--order", help="buckets: similar lengths together, fast; random: the papers' way.")
]
Precision = Annotated[str, typer.Option("--precision", help="fp32, or bf16 (autocast, weights stay fp32).")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, or auto.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", help="CPU threads of a training; part of its identity [cores, 8 at most]."),
]
StoreDir = Annotated[
    Path | None,
    typer.Option(
        "--store", envvar="TOMBOLA_STORE", help="Where finished runs are kept [~/.cache/tombola/store]."
    ),
]
Engine = Annotated[
    str, typer.Option("--engine", help="inline: this process; local: worker processes; ray: a cluster.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", help="Steps at a time [the cores or GPUs there are].")
]
Address = Annotated[
    str | None, typer.Option("--address", help="Of the Ray cluster; without it Ray starts here.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else there.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell steps, disk and time; run nothing.")]
Revision = Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit on the hub.")]

MOST_SEEDS = 1000


def read_shares(values: list[str] | None, option: str) -> tuple[float, ...] | None:
    """``0.7``, ``70%``, or several with commas; a bare 70 could mean either and is refused."""
    from tombola.masks.share import read_share

    if values is None:
        return None
    read = [read_share(part, option) for value in values for part in value.split(",") if part.strip()]
    if not read:
        raise UsageError("no share is given", where=option, todo="give 0.5 or 50%")
    return tuple(dict.fromkeys(sorted(read)))


def read_seeds(seeds: str | None, seed: int | None, default: int = 1) -> tuple[int, ...]:
    """``--seeds 5`` = 0…4; ``--seeds 3,7`` = those; ``--seed 3`` = that one."""
    if seeds is not None and seed is not None:
        raise UsageError("--seed and --seeds exclude each other", where="--seed", todo="leave one out")
    if seed is not None:
        return (_whole(str(seed), "--seed"),)
    if seeds is None:
        return tuple(range(default))
    if "," in seeds:
        numbers = tuple(_whole(part, "--seeds") for part in seeds.split(",") if part.strip())
        if not numbers or len(set(numbers)) != len(numbers):
            raise UsageError(
                f"'{seeds}' names no seed, or one twice", where="--seeds", todo="give 3,7 or a count"
            )
        return numbers
    count = _whole(seeds, "--seeds")
    if not 1 <= count <= MOST_SEEDS:
        raise UsageError(f"{count} seeds cannot be run", where="--seeds", todo=f"give 1 to {MOST_SEEDS}")
    return tuple(range(count))


def _whole(text: str, option: str) -> int:
    try:
        number = int(text.strip())
    except ValueError:
        raise UsageError(
            f"'{text.strip()}' is not a whole number", where=option, todo="give 5, or 3,7"
        ) from None
    if number < 0:
        raise UsageError(f"a seed of {number} is not possible", where=option, todo="give 0 or more")
    return number


def read_rewind(text: str) -> float | str:
    """``0`` (θ0), a share such as ``0.05`` or ``5%`` (θi), or ``standard``."""
    if text.strip().lower() == "standard":
        return "standard"
    if text.strip().removesuffix("%").strip() in ("0", "0.0"):
        return 0.0
    from tombola.masks.share import read_share

    try:
        return read_share(text, "--rewind")
    except UsageError as error:
        raise UsageError(
            f"'{text}' is no rewinding point",
            where="--rewind",
            todo="0 for the pre-trained weights, a share of the training such as 5%, or standard",
        ) from error
