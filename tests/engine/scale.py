"""A big study planned and asked for in a process of its own, so that its memory can be measured.

    python -m tests.engine.scale STEPS STORE MODEL

Ten rounds of IMP, their masks and a retraining for every seed, with the shapes of BERT-base; MODEL is a tiny model
whose file stands for its weights. Prints seconds and the most memory there was, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.problems import made_up_problem

from tombola.canonical import digest
from tombola.engine import rates
from tombola.engine.estimate import estimate
from tombola.engine.inline import run
from tombola.engine.pending import pending
from tombola.engine.store import FORMAT, Store
from tombola.finding.methods import get_method
from tombola.finding.search import plan_search
from tombola.finding.settings import SearchSettings
from tombola.plan.graph import Graph
from tombola.plan.step import Step

KINDS = {
    "train": {"metrics.json": False, "metrics.jsonl": False, "predictions.safetensors": False}
    | {"weights.safetensors": True},
    "prune": {"mask.json": False, "mask.safetensors": False},
}
ENVIRONMENT = {
    "machine": "m",
    "cpu": "c",
    "gpu": None,
    "python": "3.11",
    "torch": "2.13",
    "transformers": "5.23",
}


def plan(steps: int, model: str) -> Graph:
    """Nineteen steps a seed: ten trainings, nine masks."""
    problem = made_up_problem()
    shapes = {
        f"encoder.layer.{layer}.{name}.weight": shape
        for layer in range(12)
        for name, shape in {
            "attention.self.query": (768, 768),
            "attention.self.key": (768, 768),
            "attention.self.value": (768, 768),
            "attention.output.dense": (768, 768),
            "intermediate.dense": (3072, 768),
            "output.dense": (768, 3072),
        }.items()
    }
    # Planning must not load torch: what it weighs is part of the memory that is measured.
    source = {"name": model, "revision": None}
    problem = replace(problem, model=replace(problem.model, shapes=shapes, source=source))
    settings = SearchSettings(sparsities=(0.9,), seeds=tuple(range(-(-steps // 19))))
    return plan_search(problem, settings, get_method("imp")).graph


def finish(store: Store, step: Step) -> None:
    """What a finished run leaves, with empty outputs; its transient ones were dropped."""
    folder = store.folder(step.identity)
    folder.mkdir(parents=True)
    outputs = {
        name: {"size": 0, "sha256": "0" * 64, "transient": transient}
        for name, transient in KINDS[step.kind].items()
    }
    manifest = {"format": FORMAT, "identity": step.identity, "outputs": outputs, "environment": ENVIRONMENT}
    (folder / "manifest.json").write_text(json.dumps(manifest | {"digest": digest(manifest)}, indent=2))
    (folder / "spec.json").write_text("{}")
    for name, transient in KINDS[step.kind].items():
        if not transient:
            (folder / name).touch()


def measured(steps: int, root: str, model: str) -> Iterator[tuple[str, Any]]:
    store = Store(root)
    (store.root / "index" / "rates.jsonl").touch()
    # Whatever is imported and read once by then is the same for a small study.
    plan(1, model)
    at_first = _megabytes()
    graph, seconds = _timed(lambda: plan(steps, model))
    count, ordered = _timed(lambda: len(graph.steps))
    yield "steps", count
    yield "plan", seconds + ordered
    training = next(step for step in graph.steps if step.kind == "train")
    line = {"key": rates.key_of(training.parameters), "rate": 0.5}
    (store.root / "index" / "rates.jsonl").write_text(json.dumps(line) + "\n")
    work, seconds = _timed(lambda: pending(graph, store, glance=True))
    assert len(work) == count
    yield "glance, nothing done", seconds
    del work
    told, seconds = _timed(lambda: estimate(graph, store))
    assert told["to_run"] == count
    yield "estimate, nothing done", seconds
    for step in graph.steps:
        finish(store, step)
    yield "glance, all done", _timed(lambda: pending(graph, store, glance=True))[1]
    told, seconds = _timed(lambda: estimate(graph, store))
    assert told["done"] == count
    yield "estimate, all done", seconds
    summary, seconds = _timed(lambda: run(graph, Store(root)))
    assert (summary.ran, summary.complete) == (0, True)
    yield "brought about, all done", seconds
    yield "megabytes at first", at_first
    yield "megabytes at most", _megabytes()


def _timed(act: Callable[[], Any]) -> tuple[Any, float]:
    """Seconds of this process's own: other processes on the machine are not what is measured."""
    began = time.process_time()
    return act(), time.process_time() - began


def _megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    print(json.dumps(dict(measured(int(sys.argv[1]), sys.argv[2], sys.argv[3]))))
