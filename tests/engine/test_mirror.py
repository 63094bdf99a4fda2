"""Trackers: told of everything once, from a thread of its own, and unable to stop or slow a run."""

from __future__ import annotations

import multiprocessing
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tombola.engine import mirror as mirrors
from tombola.engine import performing
from tombola.engine.inline import run
from tombola.engine.mirror import MIRRORS, Counts, MirroredRun, mirror_all, mirror_of, read_run
from tombola.engine.mirrored import Mirrored
from tombola.engine.protocol import Silent
from tombola.engine.store import Store
from tombola.errors import UsageError
from tombola.plan.graph import Graph
from tombola.plan.step import Step
from tombola.plan.steps import StepKind

DOCS = Path(__file__).parents[2] / "docs"


def measured(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """What a training leaves: last metrics, and a line every few steps."""
    value = parameters["recipe"]["rate"]
    work.write_json("metrics.json", {"dev": {"accuracy": 50.0 + value}, "steps": 100, "kind": "words"})
    work.write_lines("metrics.jsonl", [{"step": step, "loss": value / step} for step in (50, 100)])


def unmeasured(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    work.write_json("value.json", {})


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """After the toys of all engine tests."""
    steps = {"train": StepKind(1, measured), "prune": StepKind(1, unmeasured)}
    monkeypatch.setattr(performing, "STEPS", steps)


def training(number: int) -> Step:
    parameters = {"recipe": {"rate": number, "betas": [0.9, 0.999]}, "seed": number}
    return Step("train", 1, parameters, label=f"training {number}")


def mask() -> Step:
    return Step("prune", 1, {}, label="mask")


def graph(count: int = 3) -> Graph:
    return Graph((*(training(number) for number in range(count)), mask()))


@dataclass
class Tracker:
    """Remembers what it is told; ``ails`` is done before."""

    ails: Any = lambda: None
    name: str = "test"
    told: list[MirroredRun] = field(default_factory=list)
    closed: bool = False

    def mirror(self, run: MirroredRun) -> None:
        self.ails()
        self.told.append(run)

    def close(self) -> None:
        self.closed = True

    @property
    def labels(self):
        return sorted(run.label for run in self.told)


ALL = ["training 0", "training 1", "training 2"]


def down():
    raise ConnectionError("nobody answers\nat all")


def test_a_run_is_told_as_the_store_has_it(store):
    run(graph(), store)
    told = read_run(store, training(2).identity, "training 2")
    assert told is not None
    assert told.seconds > 0
    assert (told.identity, told.kind, told.label) == (training(2).identity, "train", "training 2")
    assert told.parameters == {"recipe.rate": 2, "recipe.betas": "[0.9, 0.999]", "seed": 2}
    assert told.metrics == {"dev.accuracy": 52.0, "steps": 100}
    assert told.rows == ({"step": 50, "loss": 0.04}, {"step": 100, "loss": 0.02})
    assert read_run(store, mask().identity) is None, "a mask has measured nothing"
    assert read_run(store, "0" * 64) is None


def test_a_tracker_hears_of_every_run_once_and_the_reporter_of_everything(store):
    calls = []

    class Curious(Silent):
        def ended(self, step, seconds):
            calls.append(step.label)

        def grown(self):
            return "a method of tomorrow"

    tracker = Tracker()
    with Mirrored(Curious(), store, tracker) as reporter:
        run(graph(), store, reporter=reporter)
        assert reporter.grown() == "a method of tomorrow"
    assert sorted(calls) == ["mask", *ALL]
    assert tracker.labels == ALL
    assert tracker.closed
    assert reporter.counts == Counts(mirrored=3)
    again = Tracker()
    with Mirrored(Silent(), store, again) as reporter:
        run(graph(), store, reporter=reporter)
        for step in graph().steps:
            reporter.ended(step, 0.0)
    assert again.told == []
    assert mirror_all(store, again) == Counts()


def test_a_tracker_that_fails_is_said_once_and_stops_nothing(store):
    said = []
    tracker = Tracker(down)
    with Mirrored(Silent(), store, tracker, say=said.append) as reporter:
        assert run(graph(), store, reporter=reporter).complete
    assert reporter.counts == Counts(failed=3)
    (line,) = said
    assert "ConnectionError: nobody answers" in line
    assert "\n" not in line
    assert "nothing is lost" in line


def test_a_failing_tracker_and_a_failing_warning_stop_nothing_either(store):
    def refuse(text):
        raise RuntimeWarning(text)

    with Mirrored(Silent(), store, Tracker(down), say=refuse) as reporter:
        assert run(graph(), store, reporter=reporter).complete
    assert reporter.counts == Counts(failed=3)


def test_a_slow_tracker_slows_no_run_and_its_end_waits_no_longer_than_told(store, tmp_path):
    started = time.monotonic()
    run(graph(20), Store(tmp_path / "alone"))
    alone = time.monotonic() - started
    said, free = [], threading.Event()
    tracker = Tracker(lambda: free.wait(10))
    reporter = Mirrored(Silent(), store, tracker, say=said.append, most_waiting=5)
    started = time.monotonic()
    assert run(graph(20), store, reporter=reporter).complete
    assert time.monotonic() - started < alone + 4, "the tracker takes 10 seconds a run"
    started = time.monotonic()
    reporter.close(0.2)
    assert time.monotonic() - started < 1
    assert reporter.counts.mirrored == 0
    assert 19 <= reporter.counts.dropped <= 21
    (line,) = said
    assert "too slow" in line
    free.set()
    reporter._thread.join(5)
    assert not reporter._thread.is_alive(), "it ends as soon as the tracker lets it"
    assert len(tracker.told) <= 1


def test_what_a_tracker_missed_is_told_later_and_nothing_twice(store):
    half = iter([lambda: None, down, down])
    tracker = Tracker(lambda: next(half)())
    with Mirrored(Silent(), store, tracker, say=[].append) as reporter:
        run(graph(), store, reporter=reporter)
    assert reporter.counts == Counts(mirrored=1, failed=2)
    tracker.ails = lambda: None
    assert mirror_all(store, tracker, {training(1).identity, mask().identity}).mirrored <= 1
    mirror_all(store, tracker)
    assert tracker.labels == ALL
    other = Tracker(name="another")
    assert mirror_all(store, other) == Counts(mirrored=3)
    (store.root / "index" / "mirrored-test.jsonl").unlink()
    assert mirror_all(store, tracker) == Counts(mirrored=3), (
        "the notes may be deleted: a tracker is told anew"
    )


def test_a_tracker_that_is_down_is_not_tried_for_every_run(store):
    run(graph(10), store)
    tried, said = [], []

    def fail():
        tried.append(1)
        down()

    assert mirror_all(store, Tracker(fail), say=said.append) == Counts(failed=3)
    assert (len(tried), len(said)) == (3, 1)


def test_a_damaged_run_is_a_failure_of_its_own(store):
    run(graph(), store)
    path = store.folder(training(1).identity) / "metrics.json"
    path.write_bytes(path.read_bytes().replace(b"51", b"15"))
    tracker = Tracker()
    with pytest.warns(UserWarning, match="is damaged"):
        counts = mirror_all(Store(store.root), tracker, say=[].append)
    assert counts == Counts(mirrored=2, failed=1)


def _tell(root: str, place: str, barrier: Any) -> None:
    def write(run: MirroredRun) -> None:
        time.sleep(0.02)
        with open(place, "a") as file:
            file.write(f"{run.label}\n")

    tracker = Tracker()
    tracker.mirror = write  # type: ignore[method-assign]
    barrier.wait()
    mirror_all(Store(root), tracker)


def test_two_processes_tell_a_tracker_of_nothing_twice(store, tmp_path):
    run(graph(20), store)
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    place = str(tmp_path / "told")
    processes = [context.Process(target=_tell, args=(str(store.root), place, barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(Path(place).read_text().split("\n")[:-1]) == sorted(f"training {n}" for n in range(20))


def test_what_another_process_tells_between_two_looks_is_not_told_again(store, monkeypatch):
    run(graph(1), store)
    tracker = Tracker()
    former = mirrors.read_run

    def meanwhile(store, identity, label):
        monkeypatch.setattr(mirrors, "read_run", former)
        assert mirror_all(store, tracker) == Counts(mirrored=1)
        return former(store, identity, label)

    monkeypatch.setattr(mirrors, "read_run", meanwhile)
    assert mirror_all(store, tracker, {training(0).identity}) == Counts()
    assert tracker.labels == ["training 0"]


def test_the_mirror_in_the_documentation_works(store, monkeypatch, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "trackers.md").read_text(), re.DOTALL)
    assert len(code.strip().splitlines()) <= 25
    monkeypatch.setattr(mirrors, "MIRRORS", dict(MIRRORS))
    exec(compile(code, "trackers.md", "exec"), {})
    tracker = mirror_of(f"csv:{tmp_path / 'table.csv'}", "my study")
    run(graph(), store)
    assert mirror_all(store, tracker) == Counts(mirrored=3)
    tracker.close()
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert sorted(line.split(",")[1] for line in lines) == ALL
    assert sorted(line.split(",")[2] for line in lines) == ["50.0", "51.0", "52.0"]


def test_mistakes_in_the_name_of_a_tracker(monkeypatch):
    with pytest.raises(UsageError, match="no tracker 'mlfow'") as error:
        mirror_of("mlfow:somewhere", "x")
    assert "did you mean 'mlflow'" in str(error.value)
    with pytest.raises(UsageError, match="where is the tracker"):
        mirror_of("mlflow", "x")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError, match="not installed") as error:
        mirror_of("mlflow:somewhere", "x")
    assert 'pip install "tombola[mlflow]"' in str(error.value)


# -- MLflow -----------------------------------------------------------------------------------------------------


@pytest.fixture
def client(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mirror_of(f"mlflow:{tmp_path / 'mlruns'}", "quiet")  # sets what MLflow reads from the environment
    return mlflow.MlflowClient(tracking_uri=str(tmp_path / "mlruns"))


def runs_of(client, experiment):
    return client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


@pytest.mark.parametrize("form", ["mlflow:{}", "mlflow:file:{}", "mlflow:file://{}"])
def test_mlflow_has_what_the_store_has(store, client, tmp_path, form):
    tracker = mirror_of(form.format(tmp_path / "mlruns"), "existence")
    with Mirrored(Silent(), store, tracker) as reporter:
        run(graph(), store, reporter=reporter)
    assert reporter.counts == Counts(mirrored=3)
    runs = {found.info.run_name: found for found in runs_of(client, "existence")}
    assert sorted(runs) == ALL
    found = runs["training 2"]
    assert found.info.status == "FINISHED"
    assert found.data.tags["tombola.identity"] == training(2).identity
    assert found.data.tags["tombola.step"] == "train"
    assert found.data.params == {"recipe.rate": "2", "recipe.betas": "[0.9, 0.999]", "seed": "2"}
    assert found.data.metrics["dev.accuracy"] == 52.0
    losses = client.get_metric_history(found.info.run_id, "loss")
    assert [(metric.step, metric.value) for metric in losses] == [(50, 0.04), (100, 0.02)]


def test_mlflow_is_told_of_nothing_twice_even_without_our_notes(store, client, tmp_path):
    place = f"mlflow:{tmp_path / 'mlruns'}"
    run(graph(), store)
    mirror_all(store, mirror_of(place, "existence"))
    (notes,) = (store.root / "index").glob("mirrored-mlflow-*.jsonl")
    notes.unlink()
    half = runs_of(client, "existence")[0]
    client.set_terminated(half.info.run_id, status="RUNNING")
    mirror_all(store, mirror_of(place, "existence"))
    runs = runs_of(client, "existence")
    assert sorted(found.info.run_name for found in runs) == ALL
    assert {found.info.status for found in runs} == {"FINISHED"}, "what was told in part is told anew"
    assert half.info.run_id not in {found.info.run_id for found in runs}


def test_long_parameters_and_many_rows_fit_into_mlflow(store, client, tmp_path, monkeypatch):
    def long(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
        work.write_lines("metrics.jsonl", [{"step": step, "loss": 1.0} for step in range(2500)])

    monkeypatch.setattr(performing, "STEPS", {"train": StepKind(1, long)})
    step = Step("train", 1, {"words": "x" * 7000, **{f"p{number}": number for number in range(150)}})
    run(Graph((step,)), store)
    assert mirror_all(store, mirror_of(f"mlflow:{tmp_path / 'mlruns'}", "long")) == Counts(mirrored=1)
    (found,) = runs_of(client, "long")
    assert len(found.data.params) == 151
    assert len(client.get_metric_history(found.info.run_id, "loss")) == 2500


def test_a_place_that_this_mlflow_cannot_write_to_is_said_at_once(client):
    with pytest.raises(UsageError, match="cannot write there"):
        mirror_of("mlflow:ftp://nowhere", "x")
