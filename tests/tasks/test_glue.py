"""GLUE from folders of the official layout and from the hub: the same records, the same fingerprint."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from tombola.errors import DataError
from tombola.tasks.glue import LAYOUTS, read_split
from tombola.tasks.task import TASKS, DataOptions, TaskData, get_task, load_task

SHARED = Path(__file__).parents[3] / "shared" / "data"

NLI = ["index", "sentence1", "sentence2", "label"]
STS_B = ["index", "genre", "filename", "year", "old_index", "source1", "source2"]
STS_B += ["sentence1", "sentence2", "score"]
MNLI_HEAD = [
    "index",
    "promptID",
    "pairID",
    "genre",
    "sentence1_binary_parse",
    "sentence2_binary_parse",
    "sentence1_parse",
]
MNLI_TRAIN = [*MNLI_HEAD, "sentence2_parse", "sentence1", "sentence2", "label1", "gold_label"]
MNLI_DEV = [*MNLI_TRAIN[:-1], "label2", "label3", "label4", "label5", "gold_label"]
MNLI_TEST = MNLI_TRAIN[:-2]


def mnli(header: list[str], first: str, second: str, label: str = "") -> list[str]:
    given = {"sentence1": first, "sentence2": second, "gold_label": label}
    # Annotators' labels stand before the gold one, and say something else.
    return [given.get(name, "neutral" if name.startswith("label") else f"<{name}>") for name in header]


#: The official files: (header or None, rows). Quotes are literal, SST-2 ends in blanks, numbers are text.
FOLDERS: dict[str, dict[str, tuple[list[str] | None, list[list[str]]]]] = {
    "CoLA": {
        "train.tsv": (None, [["gj04", "1", "", "They said \"no."], ["gj04", "0", "*", "They sleeps."]]),
        "dev.tsv": (None, [["gj04", "1", "", "He's here."], ["c_13", "0", "*", 'The "dog."']]),
        "test.tsv": (["index", "sentence"], [["0", "Bill whistled."]]),
    },
    "SST-2": {
        "train.tsv": (["sentence", "label"], [["hide new secretions ", "0"], ["warm , \" funny ", "1"]]),
        "dev.tsv": (["sentence", "label"], [["it 's charming . ", "1"]]),
        "test.tsv": (["index", "sentence"], [["0", "uneasy mishmash ."]]),
    },
    "MRPC": {
        "train.tsv": (
            ["\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
            [["1", "7", "8", 'He said "yes.', "He agreed."], ["0", "9", "10", "It rose.", '"It fell."']],
        ),
        "dev.tsv": (["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"], [["1", "1", "2", "A.", "B."]]),
        "test.tsv": (["index", "#1 ID", "#2 ID", "#1 String", "#2 String"], [["0", "1", "2", "C.", "D."]]),
    },
    "STS-B": {
        "train.tsv": (
            STS_B,
            [
                ["0", "main", "MSRvid", "2012", "1", "none", "none", "A plane.", "An air plane.", "5.000"],
                ["1", "main", "MSRvid", "2012", "4", "none", "none", "A flute.", "A man.", "3.800"],
            ],
        ),
        "dev.tsv": (
            STS_B,
            [["0", "main", "MSRvid", "2012", "0", "none", "none", "A hat.", "A hard hat.", "0"]],
        ),
    },
    "QQP": {
        "train.tsv": (
            ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
            [
                ["1", "2", "3", 'What is "C?', "What is C?", "1"],
                ["4", "5", "6", "broken"],
                ["4", "5", "6", "no label", "either", ""],
                ["7", "8", "9", "Why?", "", "0"],
            ],
        ),
        "dev.tsv": (
            ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
            [["1", "2", "3", "How?", "How so?", "0"]],
        ),
        "test.tsv": (["id", "question1", "question2"], [["0", "Who?", "Whom?"]]),
    },
    "MNLI": {
        "train.tsv": (
            MNLI_TRAIN,
            [mnli(MNLI_TRAIN, "p one", "h one", "contradiction"), mnli(MNLI_TRAIN, "p", "h", "entailment")],
        ),
        "dev_matched.tsv": (MNLI_DEV, [mnli(MNLI_DEV, "m p", "m h", "neutral")]),
        "dev_mismatched.tsv": (MNLI_DEV, [mnli(MNLI_DEV, "mm p", "mm h", "contradiction")]),
        "test_matched.tsv": (MNLI_TEST, [mnli(MNLI_TEST, "t p", "t h")]),
        "test_mismatched.tsv": (MNLI_TEST, [mnli(MNLI_TEST, "tt p", "tt h")]),
    },
    "QNLI": {
        "train.tsv": (
            ["index", "question", "sentence", "label"],
            [["0", "When?", "In 1999.", "entailment"], ["1", "Who?", "It rained.", "not_entailment"]],
        ),
        "dev.tsv": (["index", "question", "sentence", "label"], [["0", "Where?", "There.", "entailment"]]),
        "test.tsv": (["index", "question", "sentence"], [["0", "What?", "That."]]),
    },
    "RTE": {
        "train.tsv": (
            NLI,
            [["0", "No weapons.", "Weapons.", "not_entailment"], ["1", "A\u00a0b\u2028c.", "B.", "0"]],
        ),
        "dev.tsv": (NLI, [["0", "He died.", "He died.", "entailment"]]),
        "test.tsv": (["index", "sentence1", "sentence2"], [["0", "X.", "Y."]]),
    },
    "WNLI": {
        "train.tsv": (
            NLI,
            [["0", "The pin had a hole.", "The carrot had.", "1"], ["1", "It had.", "The pin had.", "0"]],
        ),
        "dev.tsv": (NLI, [["0", "The drain.", "The hair.", "0"]]),
    },
}  # fmt: skip

#: What the hub holds of the same: its own column names, numbers for labels, -1 in test, SST-2's blanks.
HUB: dict[str, tuple[list[str] | None, dict[str, list[tuple]]]] = {
    "cola": (
        ["unacceptable", "acceptable"],
        {
            "train": [('They said "no.', 1), ("They sleeps.", 0)],
            "validation": [("He's here.", 1), ('The "dog."', 0)],
            "test": [("Bill whistled.", -1)],
        },
    ),
    "sst2": (
        ["negative", "positive"],
        {
            "train": [("hide new secretions ", 0), ('warm , " funny ', 1)],
            "validation": [("it 's charming . ", 1)],
            "test": [("uneasy mishmash .", -1)],
        },
    ),
    "mrpc": (
        ["not_equivalent", "equivalent"],
        {
            "train": [('He said "yes.', "He agreed.", 1), ("It rose.", '"It fell."', 0)],
            "validation": [("A.", "B.", 1)],
            "test": [("C.", "D.", 1)],
        },
    ),
    "stsb": (
        None,
        {
            "train": [("A plane.", "An air plane.", 5.0), ("A flute.", "A man.", 3.799999952316284)],
            "validation": [("A hat.", "A hard hat.", 0.0)],
            "test": [("X", "Y", -1.0)],
        },
    ),
    "qqp": (
        ["not_duplicate", "duplicate"],
        {
            "train": [('What is "C?', "What is C?", 1), ("Why?", "", 0)],
            "validation": [("How?", "How so?", 0)],
            "test": [("Who?", "Whom?", -1)],
        },
    ),
    "mnli": (
        ["entailment", "neutral", "contradiction"],
        {
            "train": [("p one", "h one", 2), ("p", "h", 0)],
            "validation_matched": [("m p", "m h", 1)],
            "validation_mismatched": [("mm p", "mm h", 2)],
            "test_matched": [("t p", "t h", -1)],
            "test_mismatched": [("tt p", "tt h", -1)],
        },
    ),
    "qnli": (
        ["entailment", "not_entailment"],
        {
            "train": [("When?", "In 1999.", 0), ("Who?", "It rained.", 1)],
            "validation": [("Where?", "There.", 0)],
            "test": [("What?", "That.", -1)],
        },
    ),
    "rte": (
        ["entailment", "not_entailment"],
        {
            "train": [("No weapons.", "Weapons.", 1), ("A\u00a0b\u2028c.", "B.", 0)],
            "validation": [("He died.", "He died.", 0)],
            "test": [("X.", "Y.", -1)],
        },
    ),
    "wnli": (
        ["not_entailment", "entailment"],
        {
            "train": [("The pin had a hole.", "The carrot had.", 1), ("It had.", "The pin had.", 0)],
            "validation": [("The drain.", "The hair.", 0)],
        },
    ),
}


def write_tsv(path: Path, header: list[str] | None, rows: list[list[str]]) -> None:
    lines = ["\t".join(cells) for cells in ([header] if header else []) + rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glue")
    for name, files in FOLDERS.items():
        for file, (header, rows) in files.items():
            write_tsv(folder / name / file, header, rows)
    return folder


class HubRows:
    """As much of a datasets.Dataset as is used."""

    def __init__(self, columns: tuple[str, ...], names: list[str] | None, rows: list[tuple]) -> None:
        self.column_names = [*columns, "label", "idx"]
        self.features = {"label": SimpleNamespace(names=names) if names else SimpleNamespace(dtype="float32")}
        self.rows = rows

    def __getitem__(self, column: str) -> list[Any]:
        return [row[self.column_names.index(column)] for row in self.rows]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A package ``datasets`` that holds HUB."""
    content: dict[str, Any] = {}
    for layout in LAYOUTS.values():
        names, splits = HUB[layout.hub]
        content[layout.hub] = {
            split: HubRows(layout.hub_columns, names, rows) for split, rows in splits.items()
        }

    def load_dataset(path: str, name: str) -> dict[str, Any]:
        assert path == "nyu-mll/glue"
        return content[name]

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return content


GLUE_TASKS = [name for name, task in TASKS.items() if task.source == "glue"]


def from_folder(name: str, folder: Path) -> TaskData:
    return load_task(name, DataOptions(data_dir=folder))


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_hub_and_folder_are_the_same_data(name: str, glue: Path, hub: dict[str, Any]) -> None:
    folder, online = from_folder(name, glue), load_task(name)
    assert folder.train == online.train
    assert folder.dev == online.dev
    assert folder.fingerprint == online.fingerprint
    for split in set(folder.extra) & set(online.extra):
        assert folder.extra[split].fingerprint == online.extra[split].fingerprint


def test_the_layout_is_read_as_it_is_meant(glue: Path) -> None:
    cola = from_folder("cola", glue)
    assert (cola.train.first, cola.train.targets) == (('They said "no.', "They sleeps."), (1, 0))
    assert cola.extra["test"].first == ("Bill whistled.",), "the test file alone has a header"
    assert cola.extra["test"].targets is None
    mrpc = from_folder("mrpc", glue)
    assert (mrpc.train.first[0], (mrpc.train.second or ())[1]) == ('He said "yes.', '"It fell."')
    assert mrpc.train.targets == (1, 0)
    sts = from_folder("sts-b", glue)
    assert sts.train.targets == (5.0, 3.799999952316284)
    assert sts.train.labels == ()
    qqp = from_folder("qqp", glue)
    assert qqp.train.first == ('What is "C?', "Why?"), "two broken rows left out"
    rte = from_folder("rte", glue)
    assert rte.train.targets == (1, 0)
    assert rte.train.first[1] == "A\u00a0b\u2028c.", "only line ends end a line"


def test_mnli_has_two_devs(glue: Path) -> None:
    data = from_folder("mnli", glue)
    assert data.train.targets == (2, 0), "gold_label, the last column, not label1"
    assert data.dev.first == ("m p",)
    assert sorted(data.extra) == ["dev_mismatched", "test", "test_mismatched"]
    assert data.extra["dev_mismatched"].targets == (2,)
    assert data.extra["test"].targets is None


def test_hub_labels_go_by_name_not_by_number(hub: dict[str, Any]) -> None:
    plain = load_task("rte").train
    for rows in hub["rte"].values():
        rows.features = {"label": SimpleNamespace(names=["not_entailment", "entailment"])}
        rows.rows = [
            (first, second, 1 - label if label >= 0 else label) for first, second, label in rows.rows
        ]
    assert load_task("rte").train == plain
    hub["rte"]["train"].features = {"label": SimpleNamespace(names=["yes", "no"])}
    with pytest.raises(DataError, match="the labels are yes, no"):
        load_task("rte")


def test_hub_label_out_of_range(hub: dict[str, Any]) -> None:
    hub["rte"]["validation"].rows = [("a", "b", -1)]
    with pytest.raises(DataError, match=r"label -1 is unknown[\s\S]*validation, row 1"):
        load_task("rte")


def test_hub_without_the_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'tombola\[hub\]'"):
        load_task("rte")


def test_hub_that_cannot_be_reached(hub: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(path: str, name: str) -> None:
        raise ConnectionError("no network\nand more")

    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", offline)
    with pytest.raises(DataError, match=r"ConnectionError: no network\)"):
        load_task("rte")
    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", lambda path, name: {})
    with pytest.raises(DataError, match="no split 'train'"):
        load_task("rte")


@pytest.mark.parametrize("name", ["sst2", "SST-2", "sst-2", "SST_2", "Sst2"])
def test_folder_by_any_usual_name(name: str, glue: Path, tmp_path: Path) -> None:
    (tmp_path / "glue_data").mkdir()
    (tmp_path / "glue_data" / name).symlink_to(glue / "SST-2")
    fingerprint = from_folder("sst-2", glue).fingerprint
    assert from_folder("sst-2", tmp_path / "glue_data").fingerprint == fingerprint
    assert from_folder("sst-2", tmp_path / "glue_data" / name).fingerprint == fingerprint


def test_line_ends_do_not_matter(glue: Path, tmp_path: Path) -> None:
    for file in (glue / "MRPC").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert from_folder("mrpc", tmp_path).fingerprint == from_folder("mrpc", glue).fingerprint


def test_wrong_folders(glue: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        from_folder("rte", tmp_path / "nowhere")
    with pytest.raises(DataError, match="neither a folder RTE nor a file"):
        from_folder("rte", tmp_path)
    with pytest.raises(DataError, match="this is the folder of WNLI, the task is rte"):
        from_folder("rte", glue / "WNLI")
    (tmp_path / "RTE").mkdir()
    (tmp_path / "RTE" / "train.tsv").write_bytes((glue / "RTE" / "train.tsv").read_bytes())
    with pytest.raises(DataError, match=r"dev\.tsv does not exist"):
        from_folder("rte", tmp_path)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"index\tsentence1\tsentence2\tlabel\n", "has no examples"),
        (b"index\tsentence1\tlabel\n0\ta\tentailment\n", r"no column 'sentence2'[\s\S]*row 1"),
        (b"index\tsentence1\tsentence2\tlabel\n\n0\ta\tb\n", r"3 cells, the file has 4[\s\S]*row 3"),
        (b"index\tsentence1\tsentence2\tlabel\n0\ta\tb\tc\tentailment\n", r"5 cells[\s\S]*row 2"),
        (b"index\tsentence1\tsentence2\tlabel\n0\ta\tb\tmaybe\n", r"'maybe' is unknown[\s\S]*row 2"),
        (b"index\tsentence1\tsentence2\tlabel\n0\ta\tb\t2\n", r"'2' is unknown[\s\S]*row 2"),
        (b"index\tsentence1\tsentence2\tlabel\n0\ta\tcaf\xe9\t0\n", r"not UTF-8: byte 0xe9[\s\S]*row 2"),
    ],
)
def test_damaged_files_name_file_and_row(content: bytes, what: str, tmp_path: Path) -> None:
    file = tmp_path / "dev.tsv"
    file.write_bytes(content)
    with pytest.raises(DataError, match=what) as caught:
        read_split(get_task("rte"), file, "dev")
    assert "dev.tsv" in str(caught.value)


def test_score_that_is_no_number(tmp_path: Path) -> None:
    file = tmp_path / "dev.tsv"
    file.write_text("sentence1\tsentence2\tscore\na\tb\t3.5\na\tb\tgood\n")
    with pytest.raises(DataError, match=r"score 'good' is not a number[\s\S]*row 3"):
        read_split(get_task("sts-b"), file, "dev")


def test_encoded_batches_of_a_score_task_are_float(glue: Path, tiny_bert: Path) -> None:
    from transformers import AutoTokenizer

    from tombola.tasks.batching import collate
    from tombola.tasks.encoding import encode

    encoded = encode(from_folder("sts-b", glue).train, AutoTokenizer.from_pretrained(tiny_bert), 32)
    assert collate(encoded, [1])["labels"].equal(torch.tensor([3.8], dtype=torch.float32))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "train", "dev", "test"),
    [
        ("cola", 8551, 1043, None),
        ("sst-2", 67349, 872, 1821),
        ("mrpc", 3668, 408, 1725),
        ("sts-b", 5749, 1500, 1379),
        ("rte", 2490, 277, 3000),
        ("wnli", 635, 71, 146),
    ],
)
def test_real_sizes(name: str, train: int, dev: int, test: int | None) -> None:
    if not SHARED.is_dir():
        pytest.skip("../shared/data is absent")
    data = from_folder(name, SHARED / "glue")
    assert (len(data.train), len(data.dev)) == (train, dev)
    assert (len(data.extra["test"]) if data.extra else None) == test
    assert all(records.targets is None for records in data.extra.values())
    if data.task.labels:
        assert all(count > 0 for count in data.train.class_counts().values())
    else:
        assert 0 <= min(data.train.targets or ()) < max(data.train.targets or ()) == 5.0
