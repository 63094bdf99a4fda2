"""Planning at scale: building 100,000 steps, a dry run of them, memory, and how soon a finished study answers.

Each number is measured in a process of its own (``python -m benchmarks.planning WHAT …``), imports included in memory
and, for the finished study, in time.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Row, Section, table


def section(steps: int) -> Section:
    """Everything of DESIGN 7's row about many steps."""
    # Here, not above: it loads torch, and the processes that are measured must not.
    from benchmarks.timing import many, median_interval, spread

    with tempfile.TemporaryDirectory(prefix="tombola-bench-") as folder:
        found = [json.loads(_child("scale", str(steps), folder)) for _ in range(3)]
        _child("finish", folder)
        answer = many(lambda: _child("answer", folder), 7)
    build = [entry["build"] for entry in found]
    nothing, everything = [entry["nothing"] for entry in found], [entry["everything"] for entry in found]
    memory = [entry["megabytes"] for entry in found]
    count = found[0]["steps"]
    size = json.loads(_child("size"))
    body = "\n\n".join(
        [
            f"{count:,} steps: IMP searches of nine sparsities in `minilm-l6`, a seed each, with their retrained "
            "tickets; three processes. A dry run tells steps, disk and time by the store's index of rates. The "
            f"finished study is `existence-bert-base` with made-up scores, {size:,} steps, all of them in the store: "
            "a process that plans, looks, reads every score and finds its tables and figures written; the whole "
            "process, seven times.",
            table(
                ("what", "median (lowest–highest)"),
                [
                    (f"build {count:,} steps, s", spread(build)),
                    ("dry run, nothing done, s", spread(nothing)),
                    ("dry run, everything done, s", spread(everything)),
                    ("memory of that process, MB", spread(memory, "{:.0f}")),
                    ("a finished study answers, s", spread(answer)),
                ],
            ),
        ]
    )
    rows = (
        Row("building 100,000 steps, s", spread(build), median_interval(build)[0], target=10, at_most=True),
        Row(
            "dry run of 100,000 steps, s",
            spread(nothing),
            median_interval(nothing)[0],
            target=5,
            at_most=True,
        ),
        Row(
            "memory for them, MB",
            spread(memory, "{:.0f}"),
            median_interval(memory)[0],
            target=500,
            at_most=True,
        ),
        Row(
            "a finished study answers, s", spread(answer), median_interval(answer)[0], target=1, at_most=True
        ),
    )
    return Section("Planning", body, rows)


def _child(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.planning", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def _scale(steps: int, folder: Path) -> None:
    from tombola.engine import rates
    from tombola.engine.estimate import estimate
    from tombola.engine.store import Store
    from tombola.finding.methods import get_method
    from tombola.finding.search import plan_search
    from tombola.finding.settings import SearchSettings
    from tombola.plan.defaults import make_numerics, make_recipe
    from tombola.plan.materials import problem
    from tombola.tasks.task import DataOptions

    sparsities = tuple(number / 10 for number in range(1, 10))
    whole = problem(
        "minilm-l6",
        None,
        "rotten-tomatoes",
        DataOptions(),
        make_recipe("rotten-tomatoes"),
        make_numerics("fp32", "cpu", 1),
    )
    began = time.perf_counter()
    # One dense training, eight further rounds, nine masks, nine retrainings.
    settings = SearchSettings(sparsities=sparsities, seeds=tuple(range(-(-steps // 27))))
    graph = plan_search(whole, settings, get_method("imp")).graph
    count = len(graph.steps)
    build = time.perf_counter() - began
    store = Store(folder / f"store-{os.getpid()}")
    training = next(step for step in graph.steps if step.kind == "train")
    rate = json.dumps({"key": rates.key_of(training.parameters), "rate": 0.1})
    (store.root / "index" / "rates.jsonl").write_text(rate + "\n")
    began = time.perf_counter()
    told = estimate(graph, store)
    nothing = time.perf_counter() - began
    if told["to_run"] != count:
        raise RuntimeError("an empty store has nothing done")
    for step in graph.steps:
        store.folder(step.identity).mkdir(parents=True)
    began = time.perf_counter()
    told = estimate(graph, store)
    everything = time.perf_counter() - began
    if told["to_run"] != 0:
        raise RuntimeError("whatever has a folder is done for a dry run")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(
        json.dumps(
            {
                "steps": count,
                "build": build,
                "nothing": nothing,
                "everything": everything,
                "megabytes": megabytes,
            }
        )
    )


def _finish(folder: Path) -> None:
    """A store in which the whole study is done, with made-up scores; its tables and figures are written."""
    from benchmarks.sharing import Printed, study_of
    from tombola import files
    from tombola.engine.performing import Output
    from tombola.engine.store import Store
    from tombola.engine.work import Work

    study, known = study_of("existence-bert-base", {}), Printed()
    store = Store(folder / "finished")
    for number, step in enumerate(study.plan(known).graph.steps):
        staging = folder / "staging" / str(number)
        name = "metrics.json" if step.kind == "train" else "mask.json"
        files.write_json(staging / name, dict(known.metrics(step)) if step.kind == "train" else {})
        output = Output((staging / name).stat().st_size, files.sha256_of(staging / name), False)
        store.publish(Work.of(step, ()), staging, {name: output}, {})
    _answer(folder)


def _answer(folder: Path) -> None:
    """What ``tombola study`` does once everything is there."""
    from benchmarks.sharing import study_of
    from tombola.engine.inline import Inline
    from tombola.engine.store import Store
    from tombola.report.writing import write_artefacts
    from tombola.studies.carrying_out import StoreKnows, carry_out

    study = study_of("existence-bert-base", {})
    store = Store(folder / "finished")
    outcome = carry_out([study], store, lambda _graph: Inline(store))
    if outcome.ran or not outcome.complete:
        raise RuntimeError("the study was not finished")
    write_artefacts(study.artefacts(StoreKnows(store)), folder / "results")


def _size() -> None:
    from benchmarks.sharing import Printed, study_of

    print(len(study_of("existence-bert-base", {}).plan(Printed()).graph.steps))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "scale":
        _scale(int(rest[0]), Path(rest[1]))
    elif what == "size":
        _size()
    else:
        {"finish": _finish, "answer": _answer}[what](Path(rest[0]))
