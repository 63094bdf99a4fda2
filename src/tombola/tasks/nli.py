"""SNLI (Bowman et al., 2015) and SciTail (Khot et al., 2018) from the folders they are handed out in."""

from __future__ import annotations

from pathlib import Path

from tombola.errors import DataError
from tombola.tasks.glue import task_folder
from tombola.tasks.records import Records
from tombola.tasks.task import Task, TaskData
from tombola.tasks.text_file import at, read_json_lines, read_lines

#: Names of the folder, then of a split's file, official ones included.
FOLDERS: dict[str, tuple[str, ...]] = {
    "snli": ("snli", "snli_1.0"),
    "scitail": ("scitail", "SciTailV1.1", "SciTailV1", "tsv_format"),
}
FILES: dict[str, tuple[str, ...]] = {
    "snli": ("{split}.jsonl", "snli_1.0_{split}.jsonl"),
    "scitail": ("{split}.tsv", "scitail_1.0_{split}.tsv", "tsv_format/scitail_1.0_{split}.tsv"),
}


def load_nli(task: Task, data_dir: Path | None) -> TaskData:
    """Train, dev and (where it is there) test, all with their labels."""
    splits = read_splits(task, data_dir)
    for split in ("train", "dev"):
        if split not in splits:
            expected = " or ".join(name.format(split=split) for name in FILES[task.name])
            raise DataError(
                f"{task.name} has no {split} split in this folder (found: {', '.join(splits)})",
                where=f"--data-dir {data_dir}",
                todo=f"add {expected}",
            )
    train, dev = splits.pop("train"), splits.pop("dev")
    return TaskData(task, train, dev, splits)


def read_splits(task: Task, data_dir: Path | None) -> dict[str, Records]:
    """The splits that are there, by name; one that is missing is only an error for who needs it."""
    if data_dir is None:
        raise DataError(
            f"{task.name} is read from a folder", where=f"task {task.name}", todo="give --data-dir FOLDER"
        )
    patterns = FILES[task.name]
    names = tuple(name.format(split=split) for split in ("train", "dev", "test") for name in patterns)
    folder = task_folder(data_dir, FOLDERS[task.name], names)
    splits = {}
    for split in ("train", "dev", "test"):
        paths = [folder / name.format(split=split) for name in patterns]
        for path in [path for path in paths if path.is_file()][:1]:
            splits[split] = (_read_snli if task.name == "snli" else _read_scitail)(task, path, split)
    if not splits:
        raise DataError(f"{task.name} has no files here", where=str(folder), todo=f"add {', '.join(names)}")
    return splits


def _read_snli(task: Task, path: Path, split: str) -> Records:
    """JSON lines; the gold label '-' means that the annotators did not agree, and the pair is dropped."""
    rows = []
    for row, line in read_json_lines(path):
        for name in ("gold_label", "sentence1", "sentence2"):
            if not isinstance(line.get(name), str):
                raise DataError(f"'{name}' is missing or not text", where=at(path, row))
        if line["gold_label"] != "-":
            rows.append((line["sentence1"], line["sentence2"], _class(task, line["gold_label"], path, row)))
    return _records(task, split, path, rows)


def _read_scitail(task: Task, path: Path, split: str) -> Records:
    """Premise, hypothesis, label; no header, no quoting."""
    rows = []
    for row, line in read_lines(path):
        cells = line.split("\t")
        if len(cells) != 3:
            raise DataError(f"this row has {len(cells)} cells, not 3", where=at(path, row))
        rows.append((cells[0], cells[1], _class(task, cells[2].strip(), path, row)))
    return _records(task, split, path, rows)


def _class(task: Task, label: str, path: Path, row: int) -> int:
    if label not in task.labels:
        known = ", ".join(task.labels)
        raise DataError(f"the label '{label}' is unknown; known: {known}", where=at(path, row))
    return task.labels.index(label)


def _records(task: Task, split: str, path: Path, rows: list[tuple[str, str, int]]) -> Records:
    if not rows:
        raise DataError("the data file has no examples", where=at(path))
    first, second, targets = zip(*rows, strict=True)
    return Records(split, first, second, targets, task.labels)
