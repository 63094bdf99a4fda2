"""IMP against random tickets in a small pre-trained encoder: the runs of docs/protocol-imp-random.md.

    python -m experiments.imp_against_random --data-dir GLUE --store STORE --out results.json [--jobs 8]

Every training goes through the store, so a stopped run goes on where it was, and a finished one answers at once.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

MODEL = "minilm-l6"
TASKS = ("cola", "mrpc", "rte")
SPARSITIES = (0.2, 0.4, 0.5, 0.6, 0.7)
SEEDS = (0, 1, 2, 3, 4)
METHODS = ("imp", "random")
#: The learning rate of a task is chosen once, on the full model, with a seed that no result uses.
PILOT_SEED = 100
PILOT_RATES = (2e-5, 5e-5, 1e-4)


def search(task: str, method: str, rate: float, seeds: tuple[int, ...], options: argparse.Namespace) -> Any:
    """The plan of one method on one task."""
    from tombola import api
    from tombola.tasks.task import DataOptions

    return api.plan_find(
        MODEL,
        task=task,
        method=method,
        sparsities=SPARSITIES,
        seeds=seeds,
        data=DataOptions(data_dir=Path(options.data_dir)),
        recipe=api.make_recipe(task, learning_rate=rate),
        numerics=api.make_numerics("fp32", options.device, 1),
    )


def pilot(task: str, rate: float, options: argparse.Namespace) -> float:
    """The full model's dev score with the pilot seed at one learning rate."""
    from tombola.engine.inline import run
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph

    planned = search(task, "random", rate, (PILOT_SEED,), options)
    store = Store(options.store)
    run(Graph((planned.dense[PILOT_SEED],)), store)
    metric = planned.problem.task.metrics[0]
    return float(store.read_json(planned.dense[PILOT_SEED].out("metrics.json"))["dev"][metric])


def one_seed(task: str, rate: float, seed: int, options: argparse.Namespace) -> str:
    """Both methods with one seed: dense training, IMP rounds, ten retrained tickets."""
    from tombola.engine.inline import run
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph

    graph = Graph(())
    for method in METHODS:
        graph = graph + search(task, method, rate, (seed,), options).graph
    began = time.monotonic()
    run(graph, Store(options.store))
    return f"{task} seed {seed}: {len(graph.steps)} steps, {time.monotonic() - began:.0f} s"


def gather(task: str, rate: float, options: argparse.Namespace) -> dict[str, Any]:
    """Scores, run ids, paired comparisons and criteria of one task, read from the store."""
    from tombola.engine.store import Store
    from tombola.verifying.criteria import CRITERIA
    from tombola.verifying.significance import compare
    from tombola.verifying.summary import summarize

    store = Store(options.store)
    planned = {method: search(task, method, rate, SEEDS, options) for method in METHODS}
    problem = planned["imp"].problem
    metric = problem.task.metrics[0]

    def scores(steps: dict[int, Any]) -> list[float]:
        return [float(store.read_json(step.out("metrics.json"))["dev"][metric]) for step in steps.values()]

    def row(steps: dict[int, Any]) -> dict[str, Any]:
        values = scores(steps)
        return {
            "scores": values,
            "summary": summarize(values).to_json(),
            "runs": [step.identity[:12] for step in steps.values()],
        }

    full = scores(planned["imp"].dense)
    levels = {}
    for sparsity in SPARSITIES:
        imp, random = (scores(planned[method].retrained[sparsity]) for method in METHODS)
        levels[f"{sparsity:g}"] = {
            **{method: row(planned[method].retrained[sparsity]) for method in METHODS},
            "imp_minus_random": compare(imp, random).to_json(),
            "imp_minus_full": compare(imp, full).to_json(),
            "criteria": {name: make().holds(full, imp).holds for name, make in CRITERIA.items()},
        }
    run = store.run(planned["imp"].dense[SEEDS[0]].identity)
    return {
        "task": task,
        "metric": metric,
        "learning_rate": rate,
        "recipe": problem.recipe.to_json(),
        "numerics": problem.numerics.to_json(),
        "environment": dict(run.environment) if run else {},
        "train_examples": problem.task.train_examples,
        "dev_examples": problem.task.dev_examples,
        "majority": problem.task.majority,
        "seeds": list(SEEDS),
        "full": row(planned["imp"].dense),
        "levels": levels,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data-dir", required=True, help="folder with CoLA, MRPC, RTE in GLUE's layout")
    parser.add_argument("--store", default=".work/store")
    parser.add_argument("--out", default="results.json")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        waiting = {
            pool.submit(pilot, task, rate, options): (task, rate) for task in TASKS for rate in PILOT_RATES
        }
        found = {waiting[future]: future.result() for future in as_completed(waiting)}
        rates = {task: max(PILOT_RATES, key=lambda rate: (found[task, rate], -rate)) for task in TASKS}
        print("pilot", {f"{task} {rate:g}": round(score, 2) for (task, rate), score in sorted(found.items())})
        print("learning rates", rates, flush=True)
        # The longest task first: the pool then ends together.
        futures = [
            pool.submit(one_seed, task, rates[task], seed, options) for task in TASKS for seed in SEEDS
        ]
        for future in as_completed(futures):
            print(future.result(), flush=True)
    results = {
        "pilot": [
            {"task": task, "learning_rate": rate, "score": score}
            for (task, rate), score in sorted(found.items())
        ],
        "tasks": [gather(task, rates[task], options) for task in TASKS],
    }
    Path(options.out).write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    print(f"written: {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
