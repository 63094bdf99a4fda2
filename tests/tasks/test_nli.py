"""SNLI and SciTail in their official layouts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tombola.errors import DataError
from tombola.tasks.nli import read_splits
from tombola.tasks.task import DataOptions, get_task, load_task

SHARED = Path(__file__).parents[3] / "shared" / "data"
PAIRS = [
    ("entailment", "a b", "c"),
    ("-", "no", "gold"),
    ("contradiction", 'say "x', "d"),
    ("neutral", "e", "f"),
]


def write_snli(path: Path, pairs: list[tuple[str, str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"gold_label": g, "sentence1": a, "sentence2": b, "pairID": "1#2", "annotator_labels": [g]}
        for g, a, b in pairs
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("pattern", ["snli/{}.jsonl", "snli_1.0/snli_1.0_{}.jsonl", "{}.jsonl"])
def test_snli_layouts(pattern: str, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write_snli(tmp_path / pattern.format(split), PAIRS)
    data = load_task("snli", DataOptions(data_dir=tmp_path))
    assert data.train.first == ("a b", 'say "x', "e"), "the pair without a gold label is dropped"
    assert data.train.targets == (0, 2, 1)
    assert data.extra["test"].targets == (0, 2, 1)


@pytest.mark.parametrize(
    "pattern", ["scitail/{}.tsv", "SciTailV1.1/tsv_format/scitail_1.0_{}.tsv", "scitail_1.0_{}.tsv"]
)
def test_scitail_layouts(pattern: str, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        path = tmp_path / pattern.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('Atoms " bond\tAtoms bond\tentails\nRain\tSun\tneutral\n')
    data = load_task("scitail", DataOptions(data_dir=tmp_path))
    assert (data.train.first, data.train.second) == (('Atoms " bond', "Rain"), ("Atoms bond", "Sun"))
    assert (data.dev.targets, dict(data.extra)) == ((0, 1), {})


def test_missing_train_is_said(tmp_path: Path) -> None:
    write_snli(tmp_path / "snli" / "dev.jsonl", PAIRS)
    with pytest.raises(
        DataError, match=r"no train split in this folder \(found: dev\)[\s\S]*snli_1\.0_train"
    ):
        load_task("snli", DataOptions(data_dir=tmp_path))
    assert list(read_splits(get_task("snli"), tmp_path)) == ["dev"], "what is there can be read"


def test_no_folder() -> None:
    with pytest.raises(DataError, match="give --data-dir"):
        load_task("scitail")


@pytest.mark.parametrize(
    ("name", "file", "content", "what"),
    [
        ("snli", "dev.jsonl", '{"gold_label": "neutral", "sentence1": "a"}\n', "'sentence2' is missing"),
        ("snli", "dev.jsonl", "\n{broken\n", r"not JSON[\s\S]*row 2"),
        ("snli", "dev.jsonl", "[1]\n", r"not a JSON object[\s\S]*row 1"),
        ("snli", "dev.jsonl", '{"gold_label": "yes", "sentence1": "a", "sentence2": "b"}', "'yes' is unkno"),
        ("snli", "dev.jsonl", '{"gold_label": "-", "sentence1": "a", "sentence2": "b"}', "has no examples"),
        ("scitail", "dev.tsv", "a\tb\tneutral\na\tb\n", r"2 cells, not 3[\s\S]*row 2"),
        ("scitail", "dev.tsv", "a\tb\tcontradiction\n", r"'contradiction' is unknown[\s\S]*row 1"),
        ("scitail", "dev.tsv", "", "is empty"),
    ],
)  # fmt: skip
def test_damaged_files(name: str, file: str, content: str, what: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(DataError, match=what):
        read_splits(get_task(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dev", "test"), [("snli", 9842, 9824), ("scitail", 1304, 2126)])
def test_real_sizes_of_nli(name: str, dev: int, test: int) -> None:
    if not SHARED.is_dir():
        pytest.skip("../shared/data is absent")
    splits = read_splits(get_task(name), SHARED)
    assert {split: len(records) for split, records in splits.items()} == {"dev": dev, "test": test}
    for records in splits.values():
        assert all(count > 0 for count in records.class_counts().values())
