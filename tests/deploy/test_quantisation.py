"""Scoring an ONNX model on a development set, and whose set it is; tests/cli/test_export.py makes a real int8 file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.deploy.cases import facts_of

from tombola.deploy import quantisation
from tombola.deploy.quantisation import Scoring, check_kind, quantise
from tombola.deploy.subject import open_subject, tokenizer_of
from tombola.deploy.ticket_scoring import scoring_of
from tombola.errors import UsageError
from tombola.tasks.task import DataOptions


@pytest.fixture
def subject(super_ticket):
    return open_subject(super_ticket)


@pytest.fixture
def scoring(subject, sentences):
    options = DataOptions(data=sentences, text="text", label="label")
    return scoring_of(subject, tokenizer_of(subject), options=options)[0]


class Knowing:
    """Answers rightly for all but the shortest ``wrong`` examples, whatever the order it is asked in."""

    outputs = ("logits",)

    def __init__(self, data, wrong):
        self.right = {tuple(self._ids(data, row)): int(data.targets[row]) for row in range(len(data))}
        shortest = sorted(self.right, key=lambda ids: (len(ids), ids))[:wrong]
        self.right |= {ids: 1 - self.right[ids] for ids in shortest}
        self.batches = []

    def _ids(self, data, row):
        return data.ids[data.offsets[row] : data.offsets[row + 1]].tolist()

    def __call__(self, batch):
        ids, attended = batch["input_ids"].numpy(), batch["attention_mask"].numpy().astype(bool)
        self.batches.append(len(ids))
        classes = [self.right[tuple(row[real].tolist())] for row, real in zip(ids, attended, strict=True)]
        return [np.eye(2, dtype=np.float32)[classes]]


def test_every_example_is_scored_against_its_own_label(scoring):
    data = scoring.data
    model = Knowing(data, wrong=3)
    distinct = len(model.right)
    score = replace(scoring, batch_size=6)(model)["accuracy"]
    assert distinct == len(data), "the sentences differ, so that three wrong answers are three"
    assert score == pytest.approx(100 * (len(data) - 3) / len(data))
    assert sum(model.batches) == len(data)
    assert max(model.batches) == 6


def test_a_tickets_own_length_and_split_are_used(scoring, sentences):
    assert scoring.data.max_length == 16, "the ticket's recipe"
    assert len(scoring.data) == 20, "the 10 % that a training on this file is measured on"
    assert scoring.metrics == ("accuracy",)


def test_before_and_after_are_of_the_same_examples(scoring, tmp_path, monkeypatch):
    (tmp_path / "m.onnx").write_bytes(b"12345678")
    (tmp_path / "m.onnx.data").write_bytes(b"12")
    models = {"m.onnx": 0, "q.onnx": 5}
    monkeypatch.setattr(
        quantisation, "OnnxModel", lambda path, threads: Knowing(scoring.data, models[path.name])
    )
    monkeypatch.setattr(quantisation, "_to_int8", lambda path, out: out.write_bytes(b"123"))
    found = quantise(tmp_path / "m.onnx", tmp_path / "q.onnx", scoring)
    assert (found.bytes_before, found.bytes_after) == (10, 3)
    assert (found.before["accuracy"], found.after["accuracy"]) == (100.0, 75.0)
    assert (found.task, found.examples, found.batch_size) == (scoring.task, 20, 32)


def test_whether_the_records_are_the_tickets_own_is_told(subject, sentences, tiny_bert):
    from tombola.tasks.task import load_task

    options = DataOptions(data=sentences, text="text", label="label")
    tokenizer = tokenizer_of(subject)
    assert scoring_of(subject, tokenizer, options=options)[1] is None
    for fingerprint, same in ((load_task(None, options).fingerprint, True), ("f" * 64, False)):
        ticket = replace(subject.ticket, task={**facts_of(tiny_bert)["task"], "fingerprint": fingerprint})
        assert scoring_of(replace(subject, ticket=ticket), tokenizer, options=options)[1] is same


def test_data_that_nobody_named_or_of_another_task_are_refused(subject, tmp_path):
    tokenizer = tokenizer_of(subject)
    with pytest.raises(UsageError, match="nothing says which data") as told:
        scoring_of(subject, tokenizer)
    assert "--data FILE" in told.value.todo
    three = tmp_path / "three.csv"
    three.write_text("text,label\n" + "".join(f"good film {n},{'abc'[n % 3]}\n" for n in range(60)))
    with pytest.raises(UsageError, match=r"has 2 outputs, the task .* wants 3"):
        scoring_of(subject, tokenizer, options=DataOptions(data=three, text="text", label="label"))


def test_only_int8_is_known():
    check_kind("int8")
    with pytest.raises(UsageError, match="no quantisation 'fp8'"):
        check_kind("fp8")


def test_unlabelled_data_score_nothing(scoring):
    unlabelled = replace(scoring, data=replace(scoring.data, targets=None))
    with pytest.raises(UsageError, match="no labels"):
        Scoring.__call__(unlabelled, Knowing(scoring.data, 0))  # type: ignore[arg-type]
