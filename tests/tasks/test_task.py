"""The registry: the papers' recipes and metrics, names, and options that contradict each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tombola.errors import DataError, UsageError
from tombola.tasks.records import Records
from tombola.tasks.task import TASKS, DataOptions, TaskData, get_task, load_task, overlap_warning


def test_recipes_and_metrics_of_the_papers() -> None:
    """SPEC 2.4; the first metric is the primary one."""
    metrics = {
        "mnli": ("accuracy",),
        "qqp": ("accuracy", "f1"),
        "sts-b": ("pearson", "spearman"),
        "wnli": ("accuracy",),
        "qnli": ("accuracy",),
        "mrpc": ("accuracy", "f1"),
        "rte": ("accuracy",),
        "sst-2": ("accuracy",),
        "cola": ("matthews",),
    }
    for name, expected in metrics.items():
        task = TASKS[name]
        assert task.metrics == expected
        assert (task.epochs, task.batch_size, task.learning_rate, task.max_length) == (3, 32, 2e-5, 128)
        assert task.metrics[0] == expected[0]
    assert list(TASKS) == [*["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli"],
                           *["snli", "scitail", "rotten-tomatoes"]]  # fmt: skip


def test_every_task_is_whole() -> None:
    for name, task in TASKS.items():
        assert task.name == name
        assert (task.kind == "regression") == (task.labels == ())
        assert len(task.text_fields) in (1, 2)
        assert task.about


@pytest.mark.parametrize(
    ("typed", "name"), [("SST-2", "sst-2"), ("sst2", "sst-2"), ("STSB", "sts-b"), (" CoLA ", "cola")]
)
def test_names_by_any_usual_spelling(typed: str, name: str) -> None:
    assert get_task(typed).name == name


def test_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean 'mrpc'"):
        get_task("mrcp")


def test_listing_tasks_needs_no_torch() -> None:
    """The command lists tasks at once."""
    heavy = "('torch', 'numpy', 'transformers', 'sklearn', 'scipy', 'pyarrow')"
    code = f"import sys, tombola.tasks.task; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_overlap_is_said() -> None:
    warning = overlap_warning("rotten-tomatoes", get_task("sst2"))
    assert warning is not None
    assert "691" in warning
    assert "4,090" in (overlap_warning("sst-2", "rotten_tomatoes") or "")
    assert overlap_warning("rotten-tomatoes", "rotten-tomatoes") is None
    assert overlap_warning("cola", "sst-2") is None
    assert "691" in TASKS["rotten-tomatoes"].about
    assert "691" in TASKS["sst-2"].notes


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        (None, DataOptions(), "no data are named"),
        ("rte", DataOptions(data=Path("x.csv")), "both a task and a file"),
        ("rte", DataOptions(text="a", label="b"), "--text, --label belong to a file"),
        ("rte", DataOptions(eval_data=Path("x.csv")), "--eval-data"),
        ("rte", DataOptions(kind="regression"), "--kind"),
        (None, DataOptions(data=Path("x.csv"), data_dir=Path()), "needs no folder"),
        ("rte", DataOptions(max_train=0), "too few"),
        ("rte", DataOptions(max_eval=-3), "too few"),
        ("rotten-tomatoes", DataOptions(data_dir=Path()), "installed package"),
    ],
)
def test_options_that_contradict_are_refused(name: str | None, options: DataOptions, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        load_task(name, options)


def test_fingerprint_covers_what_trains_and_chooses_but_not_test() -> None:
    task = get_task("mnli")

    def split(name: str, text: str = "a") -> Records:
        return Records(name, (text,), ("b",), (0,), task.labels)

    data = TaskData(task, split("train"), split("dev"))
    with_test = TaskData(
        task, split("train"), split("dev"), {"test": split("test"), "test_mismatched": split("t")}
    )
    assert data.fingerprint == with_test.fingerprint
    others = [
        TaskData(task, split("train", "z"), split("dev")),
        TaskData(task, split("train"), split("dev", "z")),
        TaskData(task, split("train"), split("dev"), {"dev_mismatched": split("dev_mismatched")}),
    ]
    assert len({data.fingerprint, *(other.fingerprint for other in others)}) == 4
