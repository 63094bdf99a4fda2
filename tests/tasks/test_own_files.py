"""A user's own csv, tsv, jsonl or parquet: kinds found by looking, and one clear error for each mistake."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tombola.errors import DataError, UsageError
from tombola.tasks.task import DataOptions, TaskData, load_task

ROWS: list[tuple[str, str, Any]] = [
    (f'text {n}, with a comma, a "quote"\nand a line' if n % 7 == 0 else f"text {n}", f"pair {n}", n % 2)
    for n in range(40)
]


HEADER = ("text", "other", "label")


def write_csv(path: Path, rows: list[tuple], header: tuple[str, ...] = HEADER, mark: str = ",") -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=mark).writerows([header, *rows])
    return path


def write_jsonl(path: Path, rows: list[tuple], header: tuple[str, ...] = HEADER) -> Path:
    path.write_text("".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows))
    return path


def write_parquet(path: Path, rows: list[tuple], header: tuple[str, ...] = HEADER) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    parquet.write_table(pyarrow.table(columns), path)
    return path


def load(path: Path, **options: Any) -> TaskData:
    return load_task(None, DataOptions(data=path, **options))


def labelled(path: Path, labels: list[Any]) -> Path:
    """A file of rows ``t0, t1, …`` with these labels."""
    rows = [(f"t{n}", "-", label) for n, label in enumerate(labels)]
    return {".csv": write_csv, ".jsonl": write_jsonl, ".parquet": write_parquet}[path.suffix](path, rows)


def test_every_format_is_the_same_data(tmp_path: Path) -> None:
    files = [
        write_csv(tmp_path / "d.csv", ROWS),
        write_csv(tmp_path / "d.tsv", ROWS, mark="\t"),
        write_jsonl(tmp_path / "d.jsonl", ROWS),
        write_parquet(tmp_path / "d.parquet", ROWS),
    ]
    tasks = [load(file, text_pair="other") for file in files]
    assert len({data.fingerprint for data in tasks}) == 1
    data = tasks[0]
    assert sorted(data.train.first + data.dev.first) == sorted(row[0] for row in ROWS), "RFC 4180 quoting"
    assert data.train.second is not None
    assert (data.task.name, data.task.kind, data.task.labels) == ("own-d", "classification", ("0", "1"))
    assert data.task.text_fields == ("text", "other")
    assert (data.task.epochs, data.task.batch_size, data.task.learning_rate) == (3, 32, 2e-5)
    assert load(files[0]).fingerprint != data.fingerprint, "with and without the pair"


def test_a_tenth_is_held_out(tmp_path: Path) -> None:
    data = load(write_csv(tmp_path / "d.csv", ROWS))
    assert (len(data.train), len(data.dev)) == (36, 4)
    assert data.dev.class_counts() == {"0": 2, "1": 2}
    assert data.dev.rule == "stratified split, 10 % for dev, seed 0"
    given = load(write_csv(tmp_path / "d.csv", ROWS), eval_data=write_csv(tmp_path / "e.csv", ROWS[:4]))
    assert (len(given.train), len(given.dev), given.dev.rule) == (40, 4, "files as given")
    limited = load(tmp_path / "d.csv", max_train=10, max_eval=2)
    assert (len(limited.train), len(limited.dev)) == (10, 2)
    assert set(limited.dev.first) < set(data.dev.first), "a smaller training set leaves dev alone"


def test_the_rule_of_the_split_is_in_the_fingerprint(tmp_path: Path) -> None:
    split = load(write_csv(tmp_path / "d.csv", ROWS))

    def rows(records: Any) -> list[tuple]:
        return [(text, "-", target) for text, target in zip(records.first, records.targets, strict=True)]

    train = write_csv(tmp_path / "train.csv", rows(split.train))
    dev = write_csv(tmp_path / "dev.csv", rows(split.dev))
    given = load(train, eval_data=dev)
    assert (given.train.first, given.dev.first) == (split.train.first, split.dev.first)
    assert given.fingerprint != split.fingerprint


@pytest.mark.parametrize(
    ("labels", "kind", "classes"),
    [
        (["good", "bad"] * 10, "classification", ("bad", "good")),
        ([True, False] * 10, "classification", ("false", "true")),
        ([1, 2, 10] * 10, "classification", ("1", "2", "10")),
        (["1", "2", "10"] * 10, "classification", ("1", "2", "10")),
        (list(range(20)) * 2, "classification", tuple(map(str, range(20)))),
        (list(range(21)) * 2, "regression", ()),
        ([0.5, 1.0, 1.5] * 10, "regression", ()),
        ([0.0, 1.0] * 10, "regression", ()),
        (["-1.5e-1", "3", ".5"] * 10, "regression", ()),
        (["1", "2", "x"] * 10, "classification", ("1", "2", "x")),
    ],
)
def test_kind_is_found_by_looking(labels: list, kind: str, classes: tuple[str, ...], tmp_path: Path) -> None:
    data = load(labelled(tmp_path / "d.jsonl", labels))
    assert (data.task.kind, data.task.labels, data.train.labels) == (kind, classes, classes)
    assert data.task.metrics == (("accuracy",) if classes else ("pearson", "spearman"))


def test_kind_can_be_forced(tmp_path: Path) -> None:
    classes = load(labelled(tmp_path / "c.csv", ["0.0", "1.0"] * 10), kind="classification")
    assert classes.task.labels == ("0", "1")
    numbers = load(labelled(tmp_path / "n.csv", [1, 2, 3] * 10), kind="regression")
    assert numbers.train.targets is not None
    assert {type(target) for target in numbers.train.targets} == {float}
    with pytest.raises(UsageError, match="no kind 'ranking'"):
        load(tmp_path / "n.csv", kind="ranking")


def test_usual_column_names_need_not_be_named(tmp_path: Path) -> None:
    assert len(load(write_csv(tmp_path / "a.csv", ROWS, ("sentence", "x", "label"))).train) == 36
    with pytest.raises(DataError, match=r"--text is not given[\s\S]*'body', 'x', 'label'"):
        load(write_csv(tmp_path / "b.csv", ROWS, ("body", "x", "label")))
    with pytest.raises(DataError, match="--label is not given"):
        load(write_csv(tmp_path / "c.csv", ROWS, ("text", "x", "class")))
    assert len(load(tmp_path / "c.csv", label="class").train) == 36


GOOD = "text,label\n" + "".join(f"t{n},{'a' if n % 2 else 'b'}\n" for n in range(20))


@pytest.mark.parametrize(
    ("name", "content", "options", "what", "row"),
    [
        ("d.csv", GOOD, {"text": "body"}, r"no column 'body'; the columns are 'text', 'label'", 1),
        ("d.csv", GOOD, {"text_pair": "b"}, "no column 'b'", 1),
        ("d.csv", "text;label\na;b\n", {"text": "text"}, r"--label is not given", 1),
        ("d.csv", "text;label\na;b\n", {"text": "text", "label": "label"}, r"separated by ';'", 1),
        ("d.csv", "text,text,label\na,b,c\n", {}, "2 columns 'text'", 1),
        ("d.csv", "", {}, "the data file is empty", None),
        ("d.csv", " \n\n", {}, "the data file is empty", None),
        ("d.csv", "text,label\n", {}, "has no rows", None),
        ("d.csv", GOOD + "one, two,a\n", {}, "3 cells, the first row names 2 columns", 22),
        ("d.csv", 'text,label\n"two\nlines",a\nx\n', {}, "1 cells, the first row names 2", 4),
        ("d.csv", 'text,label\nx,a\n"never closed,b\nmore,a\n', {}, "cannot be read", 3),
        ("d.csv", 'text,label\nx,a\n"closed" early,b\n', {}, "cannot be read", 3),
        ("d.csv", GOOD + ",a\n", {}, "'text' is empty", 22),
        ("d.csv", GOOD + "x, \n", {}, "'label' is empty", 22),
        ("d.csv", "text,label\nx,a\ny,a\n", {}, "every row has the same label, 'a'", None),
        ("d.csv", "text,label\nx,1.5\ny,1.5\n", {}, "every row has the same label, '1.5'", None),
        ("d.csv", "text,label\n1,a\n2.5,b\n", {}, "'text' holds only numbers", 2),
        ("d.csv", "text,label\nx,1.5\ny,two\n", {"kind": "regression"}, "'two' is not a number", 3),
        ("d.csv", "text,label\nx,1.5\ny,1e99\n", {"kind": "regression"}, "'1e99' is too large", 3),
        ("d.csv", "text,label\nx,a\ny,b\n", {}, "too few", None),
        ("d.csv", GOOD, {"label": "text"}, "the same column is named twice", None),
        ("d.txt", GOOD, {}, r"no kind of file[\s\S]*\.csv, \.tsv, \.jsonl, \.parquet", None),
        ("d.tsv", GOOD.replace(",", "\t") + "a\tb\tc\n", {}, "3 cells", 22),
        ("d.tsv", GOOD, {"text": "text", "label": "label"}, r"separated by ','", 1),
        ("d.jsonl", '{"text": "x", "label": "a"}\n{"text": "y"}\n', {}, "'label' is empty", 2),
        ("d.jsonl", '{"text": "x", "label": "a"}\n{"text": null, "label": "b"}\n', {}, "'text' is empty", 2),
        ("d.jsonl", '{"text": "x", "label": 1.5}\n{"text": "y", "label": NaN}\n', {}, "'label' is empty", 2),
        ("d.jsonl", '{"text": "x", "label": "a"}\n\n{"text": 5, "label": "b"}\n', {}, "type int, not", 3),
        ("d.jsonl", '{"text": "x", "label": "a"}\n{"text": ["y"], "label": "b"}\n', {}, "type list", 2),
        ("d.jsonl", '{"text": "x", "label": "a"}\n{"text": "y", "label": {}}\n', {}, "of type dict", 2),
        ("d.jsonl", '{"text": "x", "label": "a"}\n{"text": "y", "la\n', {}, "not JSON", 2),
        ("d.jsonl", '{"text": "x", "label": "a"}\n{"text": "\\ud800", "label": "b"}\n', {}, "surrogate", 2),
        ("d.jsonl", '["x", "a"]\n', {}, "not a JSON object", 1),
        ("d.parquet", "not parquet at all", {}, "not a readable parquet file", None),
        ("d.parquet", "", {}, "the data file is empty", None),
    ],
)  # fmt: skip
def test_each_mistake_has_one_clear_error(
    name: str, content: str, options: dict, what: str, row: int | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises((DataError, UsageError), match=what) as caught:
        load(path, **options)
    if isinstance(caught.value, DataError):
        assert name in caught.value.where
        assert (f"row {row}" in caught.value.where) if row else ("row" not in caught.value.where)
    assert [file.name for file in tmp_path.iterdir()] == [name], "nothing is written"


@pytest.mark.parametrize(
    ("content", "what", "row"),
    [
        ("text,label\nx,a\n\ncafé,b\n".encode("latin-1"), "not UTF-8: byte 0xe9", 4),
        ("text,label\r\nx,a\r\ncafé,b\r\n".encode("latin-1"), "not UTF-8: byte 0xe9", 3),
        ("text,label\nx,a\n".encode("utf-16"), "is UTF-16, not UTF-8", 1),
    ],
)
def test_wrong_encoding(content: bytes, what: str, row: int, tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=what) as caught:
        load(path)
    assert caught.value.where.endswith(f"d.csv, row {row}")
    assert "UTF-8" in caught.value.todo


def test_byte_order_mark_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(GOOD.encode())
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load(tmp_path / "a.csv").fingerprint == load(tmp_path / "b.csv").fingerprint


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the data file does not exist"):
        load(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        load(tmp_path / "folder.csv")
    good = write_csv(tmp_path / "d.csv", ROWS)
    with pytest.raises(DataError, match=r"the file for evaluation does not exist[\s\S]*none\.csv"):
        load(good, eval_data=tmp_path / "none.csv")


def test_evaluation_file_is_held_to_the_training_labels(tmp_path: Path) -> None:
    good = write_csv(tmp_path / "d.csv", ROWS)
    dev = write_csv(tmp_path / "e.csv", [("x", "-", 1), ("y", "-", 2)])
    with pytest.raises(DataError, match="label '2' is not in the training data; known: '0', '1'") as caught:
        load(good, eval_data=dev)
    assert caught.value.where.endswith("e.csv, row 3")
    one_class = write_csv(tmp_path / "f.csv", [("x", "-", 1), ("y", "-", "01")])
    assert load(good, eval_data=one_class).dev.targets == (1, 1)
    missing = write_csv(tmp_path / "g.csv", [("x", 1)], ("text", "class"))
    with pytest.raises(DataError, match="no column 'label'"):
        load(good, eval_data=missing)


def test_doubtful_label_columns(tmp_path: Path) -> None:
    almost = [n / 2 for n in range(99)]
    with pytest.raises(DataError, match="'n/a' is not a number, though nearly all") as caught:
        load(labelled(tmp_path / "a.csv", [*almost, "n/a"]))
    assert caught.value.where.endswith("row 101")
    with pytest.raises(DataError, match="'n/a' is not a number, though nearly all") as caught:
        load(labelled(tmp_path / "few.csv", [*([0.5, 1.0, 1.5] * 10), "n/a"]))
    assert caught.value.where.endswith("row 32")
    classes = load(labelled(tmp_path / "classes.csv", [*([0, 1] * 15), "unknown", "unknown"]))
    assert classes.task.labels == ("0", "1", "unknown")
    with pytest.raises(DataError, match="30 different labels in 30 rows"):
        load(labelled(tmp_path / "b.csv", [f"name {n}" for n in range(30)]))
    forced = load(labelled(tmp_path / "c.csv", [f"n{n % 30}" for n in range(59)]), kind="classification")
    assert len(forced.task.labels) == 30


def test_parquet_types(tmp_path: Path) -> None:
    data = load(labelled(tmp_path / "d.parquet", [0.5, 1.5, 2.5] * 10))
    assert data.task.kind == "regression"
    with pytest.raises(DataError, match="'label' is empty") as caught:
        load(labelled(tmp_path / "e.parquet", [1, 0, None, 1]))
    assert caught.value.where.endswith("e.parquet, row 3")
    with pytest.raises(DataError, match="no column 'text'"):
        load(write_parquet(tmp_path / "f.parquet", [("a", 1)], ("body", "label")), text="text")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1), min_size=4, max_size=20
    )
)
def test_any_text_survives_csv_and_jsonl(tmp_path: Path, texts: list[str]) -> None:
    texts = [f"x{text}" for text in texts]
    rows = [(text, "-", "ab"[n % 2]) for n, text in enumerate(texts)]
    from_csv = load(write_csv(tmp_path / "h.csv", rows), eval_data=tmp_path / "h.csv").train
    from_jsonl = load(write_jsonl(tmp_path / "h.jsonl", rows), eval_data=tmp_path / "h.jsonl").train
    assert from_csv.first == from_jsonl.first == tuple(text.strip() for text in texts)
