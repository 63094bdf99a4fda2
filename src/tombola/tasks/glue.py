"""The nine tasks of GLUE (Wang et al., 2019), from the benchmark's own folders or from the hub.

Both give the same records and so the same fingerprint. The official files are tab-separated without quoting:
a quote is a character like any other. Test splits are read without labels, as the benchmark means them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tombola.errors import DataError
from tombola.tasks.records import Records
from tombola.tasks.task import Task, TaskData
from tombola.tasks.text_file import at, read_lines

HUB = "nyu-mll/glue"


@dataclass(frozen=True)
class Layout:
    """How a task lies in the benchmark's folders (column names of the tsv) and on the hub.

    ``no_header`` names the columns of files without a header line (CoLA). ``broken_rows`` says that the
    official file has rows with cells missing, which the hub's reader leaves out (QQP). ``extra_cells`` says
    that the file was not at hand to be checked, so that rows with more cells than the header are read as the
    hub's reader does: by position.
    """

    folder: str
    columns: tuple[str, ...]
    label: str
    hub: str
    hub_columns: tuple[str, ...]
    splits: Mapping[str, str] = field(
        default_factory=lambda: {"train": "train", "dev": "validation", "test": "test"}
    )
    no_header: tuple[str, ...] = ()
    broken_rows: bool = False
    extra_cells: bool = False


_PAIR = ("sentence1", "sentence2")
_MNLI_SPLITS = {
    "train": "train",
    "dev_matched": "validation_matched",
    "dev_mismatched": "validation_mismatched",
    "test_matched": "test_matched",
    "test_mismatched": "test_mismatched",
}

LAYOUTS: dict[str, Layout] = {
    "cola": Layout(
        "CoLA",
        ("sentence",),
        "label",
        "cola",
        ("sentence",),
        no_header=("source", "label", "mark", "sentence"),
    ),
    "sst-2": Layout("SST-2", ("sentence",), "label", "sst2", ("sentence",)),
    "mrpc": Layout("MRPC", ("#1 String", "#2 String"), "Quality", "mrpc", _PAIR),
    "sts-b": Layout("STS-B", _PAIR, "score", "stsb", _PAIR),
    "qqp": Layout(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        "qqp",
        ("question1", "question2"),
        broken_rows=True,
        extra_cells=True,
    ),
    "mnli": Layout(
        "MNLI", _PAIR, "gold_label", "mnli", ("premise", "hypothesis"), splits=_MNLI_SPLITS, extra_cells=True
    ),
    "qnli": Layout(
        "QNLI", ("question", "sentence"), "label", "qnli", ("question", "sentence"), extra_cells=True
    ),
    "rte": Layout("RTE", _PAIR, "label", "rte", _PAIR),
    "wnli": Layout("WNLI", _PAIR, "label", "wnli", _PAIR),
}


def load_glue(task: Task, data_dir: Path | None) -> TaskData:
    """All splits of ``task``: from ``data_dir`` if given, else from the hub."""
    layout = LAYOUTS[task.name]
    splits = _from_hub(task, layout) if data_dir is None else _from_folder(task, layout, data_dir)
    train, dev = splits.pop("train"), splits.pop("dev")
    return TaskData(task, train, dev, splits)


def our_split(name: str) -> str:
    """MNLI's matched dev and test are *the* dev and test."""
    return name.removesuffix("_matched")


def task_folder(data_dir: Path, names: tuple[str, ...], files: tuple[str, ...]) -> Path:
    """The folder of a task: below ``data_dir`` under one of ``names`` (any case and hyphens), or
    ``data_dir``.
    """
    if not data_dir.is_dir():
        raise DataError("this folder does not exist", where=f"--data-dir {data_dir}", todo="check the path")
    wanted = {_plain(name) for name in names}
    for inside in sorted(data_dir.iterdir()):
        if inside.is_dir() and _plain(inside.name) in wanted:
            return inside
    if any((data_dir / name).is_file() for name in files):
        return data_dir
    raise DataError(
        f"there is neither a folder {names[0]} nor a file {files[0]} here",
        where=f"--data-dir {data_dir}",
        todo=f"name the folder that holds {names[0]}, or the task's own folder",
    )


def _plain(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.lower())


def _from_folder(task: Task, layout: Layout, data_dir: Path) -> dict[str, Records]:
    files = {split: f"{split}.tsv" for split in layout.splits}
    folder = task_folder(data_dir, (layout.folder,), tuple(files.values()))
    for other in LAYOUTS.values():
        # RTE and WNLI have the same columns: read as each other they would load, and be wrong.
        if other is not layout and _plain(folder.name) == _plain(other.folder):
            raise DataError(
                f"this is the folder of {other.folder}, the task is {task.name}", where=str(folder)
            )
    splits = {}
    for split, name in files.items():
        path = folder / name
        if path.is_file() or our_split(split) in ("train", "dev"):
            splits[our_split(split)] = read_split(task, path, our_split(split))
    return splits


def read_split(task: Task, path: Path, split: str) -> Records:
    """One official tsv file as records; a ``test`` split has no targets."""
    layout, labelled = LAYOUTS[task.name], not split.startswith("test")
    texts: list[list[str]] = [[] for _ in layout.columns]
    targets: list[float] = []
    for row, cells in _rows(layout, path, labelled):
        for column, text in zip(texts, cells, strict=False):
            column.append(text)
        if labelled:
            targets.append(_target(task, cells[-1], at(path, row)))
    if not texts[0]:
        raise DataError("the data file has no examples", where=at(path))
    return _records(task, split, texts, targets if labelled else None)


def _rows(layout: Layout, path: Path, labelled: bool) -> Iterator[tuple[int, list[str]]]:
    """(row, texts and label) of every row that is whole."""
    lines = read_lines(path, f"{layout.folder}'s {path.name}")
    header = list(layout.no_header) if layout.no_header and labelled else next(lines)[1].split("\t")
    header = [name.strip() for name in header]
    wanted = [*layout.columns, *([layout.label] if labelled else [])]
    for name in wanted:
        if name not in header:
            raise DataError(
                f"there is no column '{name}'; the columns are {', '.join(header)}",
                where=at(path, 1),
                todo=f"is this {layout.folder} in the benchmark's own layout?",
            )
    places = [header.index(name) for name in wanted]
    for row, line in lines:
        cells = line.split("\t")
        if len(cells) < len(header) and layout.broken_rows:
            continue
        if len(cells) < len(header) or (len(cells) > len(header) and not layout.extra_cells):
            raise DataError(
                f"this row has {len(cells)} cells, the file has {len(header)} columns",
                where=at(path, row),
                todo="download the file again",
            )
        chosen = [cells[place] for place in places]
        if layout.broken_rows and labelled and not chosen[-1].strip():
            continue
        yield row, chosen


def _target(task: Task, text: str, where: str) -> float:
    """A class by its name or its number, or a score."""
    text = text.strip()
    if not task.labels:
        try:
            return float(text)
        except ValueError:
            raise DataError(f"the score '{text}' is not a number", where=where) from None
    if text in task.labels:
        return task.labels.index(text)
    if text.isdecimal() and int(text) < len(task.labels):
        return int(text)
    raise DataError(f"the label '{text}' is unknown; known: {', '.join(task.labels)}", where=where)


def _from_hub(task: Task, layout: Layout) -> dict[str, Records]:
    try:
        import datasets  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError(
            f"reading {task.name} from the hub needs the package datasets",
            where=f"task {task.name}",
            todo="pip install 'tombola[hub]', or give --data-dir with the benchmark's own folder",
        ) from None
    try:
        found: Mapping[str, Any] = datasets.load_dataset(HUB, layout.hub)
    except Exception as error:  # whatever the network, the cache or the hub may say
        reason = next(iter(str(error).splitlines()), "no reason given")
        raise DataError(
            f"the hub did not give {HUB} ({type(error).__name__}: {reason})",
            where=f"task {task.name}",
            todo="check the network, or give --data-dir with the benchmark's own folder",
        ) from error
    return {
        our_split(split): _hub_split(task, layout, found, our_split(split), name)
        for split, name in layout.splits.items()
        if name in found or our_split(split) in ("train", "dev")
    }


def _hub_split(task: Task, layout: Layout, found: Mapping[str, Any], split: str, name: str) -> Records:
    where = f"{HUB}, {layout.hub}, {name}"
    if name not in found:
        raise DataError(f"the hub's data have no split '{name}'", where=where)
    rows = found[name]
    missing = [column for column in (*layout.hub_columns, "label") if column not in rows.column_names]
    if missing:
        raise DataError(f"there is no column '{missing[0]}'", where=where)
    texts = [list(rows[column]) for column in layout.hub_columns]
    if split.startswith("test"):
        return _records(task, split, texts, None)
    values = list(rows["label"])
    if not task.labels:
        return _records(task, split, texts, [float(value) for value in values])
    # The hub numbers the classes by its own list of names: trust the names, not the order.
    names = list(getattr(rows.features["label"], "names", None) or task.labels)
    if sorted(names) != sorted(task.labels):
        raise DataError(f"the labels are {', '.join(names)}, not {', '.join(task.labels)}", where=where)
    ours = [task.labels.index(label) for label in names]
    for row, value in enumerate(values, 1):
        if value not in range(len(ours)):
            raise DataError(f"the label {value} is unknown", where=f"{where}, row {row}")
    return _records(task, split, texts, [ours[value] for value in values])


def _records(task: Task, split: str, texts: list[list[str]], targets: list[float] | None) -> Records:
    second = tuple(texts[1]) if len(texts) == 2 else None
    return Records(split, tuple(texts[0]), second, None if targets is None else tuple(targets), task.labels)
