"""Submissions to the GLUE benchmark: one tab-separated file a test set, their format, and its check.

The benchmark reads a zip of files named as in ``FILES``, each with the header ``index⇥prediction`` and a row an
example in the order of the test set: words for the entailment tasks, 0 or 1 for the others, a number in [0, 5] for
STS-B.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tombola.errors import DataError, nearest
from tombola.tasks.task import get_task

HEADER = "index\tprediction"
LOW, HIGH = 0.0, 5.0
#: No file of the benchmark comes near; a zip that says more is not unpacked.
LARGEST_FILE = 50_000_000


@dataclass(frozen=True)
class SubmissionFile:
    """One file: whose predictions, on which split, how many, and what they may say (nothing: numbers)."""

    name: str
    task: str
    split: str
    rows: int
    words: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        labels = get_task(self.task).labels
        return labels if self.words else tuple(str(position) for position in range(len(labels)))

    def written(self, answer: float) -> str:
        """One prediction as the benchmark reads it: a class by its position, or a score."""
        if not get_task(self.task).labels:
            return f"{min(HIGH, max(LOW, answer)):.3f}"
        return self.allowed[int(answer)]


#: Everything that the benchmark wants; AX, the diagnostic set, is answered by MNLI's model.
FILES: dict[str, SubmissionFile] = {
    file.name: file
    for file in (
        SubmissionFile("CoLA.tsv", "cola", "test", 1063),
        SubmissionFile("SST-2.tsv", "sst-2", "test", 1821),
        SubmissionFile("MRPC.tsv", "mrpc", "test", 1725),
        SubmissionFile("STS-B.tsv", "sts-b", "test", 1379),
        SubmissionFile("MNLI-m.tsv", "mnli", "test", 9796, words=True),
        SubmissionFile("MNLI-mm.tsv", "mnli", "test_mismatched", 9847, words=True),
        SubmissionFile("QNLI.tsv", "qnli", "test", 5463, words=True),
        SubmissionFile("QQP.tsv", "qqp", "test", 390_965),
        SubmissionFile("RTE.tsv", "rte", "test", 3000, words=True),
        SubmissionFile("WNLI.tsv", "wnli", "test", 146),
        SubmissionFile("AX.tsv", "mnli", "diagnostic", 1104, words=True),
    )
}


@dataclass(frozen=True)
class Checked:
    """What is wrong with a submission, and which files the benchmark would still want."""

    problems: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.problems and not self.missing


def file_text(name: str, answers: Sequence[float]) -> str:
    """The text of one file."""
    file = FILES[name]
    rows = [f"{position}\t{file.written(answer)}" for position, answer in enumerate(answers)]
    return "\n".join([HEADER, *rows]) + "\n"


def check_submission(files: Mapping[str, str]) -> Checked:
    """Names, headers, indices, row counts and labels of every file."""
    problems: list[str] = []
    for name, text in files.items():
        if name not in FILES:
            problems.append(f"{name}: the benchmark knows no such file ({nearest(name, list(FILES))})")
        else:
            problems += [f"{name}: {what}" for what in _problems(FILES[name], text)]
    return Checked(tuple(problems), tuple(name for name in FILES if name not in files))


def check_zip(path: Path) -> Checked:
    """The same for a zip on disk."""
    try:
        with zipfile.ZipFile(path) as opened:
            entries = [entry for entry in opened.infolist() if not entry.is_dir()]
            large = [entry.filename for entry in entries if entry.file_size > LARGEST_FILE]
            if large:
                raise DataError(
                    f"{large[0]} is larger than any file of a submission",
                    where=str(path),
                    todo="leave it out of the zip",
                )
            twice = len({entry.filename for entry in entries}) < len(entries)
            files = {entry.filename: opened.read(entry).decode() for entry in entries}
    except (zipfile.BadZipFile, UnicodeDecodeError, OSError, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"this is no zip of text files ({error})",
            where=str(path),
            todo="give the zip that a study wrote with submission: true",
        ) from None
    found = check_submission(files)
    if twice:
        return Checked((*found.problems, "a file is in the zip twice"), found.missing)
    return found


def _problems(file: SubmissionFile, text: str) -> list[str]:
    """What is wrong with one file; the first wrong row is named, the others are counted by nobody."""
    lines = text.splitlines()
    if not lines or lines[0] != HEADER:
        return ["the first line is not 'index', a tab, 'prediction'"]
    found = []
    rows = [line.split("\t") for line in lines[1:]]
    if len(rows) != file.rows:
        found.append(f"{len(rows)} predictions; the test set has {file.rows}")
    for position, row in enumerate(rows):
        if len(row) != 2 or row[0] != str(position):
            found.append(f"row {position + 1} is not index {position} and a prediction")
            break
        if not _allowed(file, row[1]):
            known = ", ".join(file.allowed) or "a number from 0 to 5"
            found.append(f"row {position + 1} says '{row[1]}'; known: {known}")
            break
    return found


def _allowed(file: SubmissionFile, said: str) -> bool:
    if file.allowed:
        return said in file.allowed
    try:
        number = float(said)
    except ValueError:
        return False
    return math.isfinite(number) and LOW <= number <= HIGH
