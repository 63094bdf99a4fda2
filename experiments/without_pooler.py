"""Does the pruned pooler explain the collapse of sparse tickets? The same masks with and without it.

    python -m experiments.without_pooler --store STORE --out results.json

One-shot pruning of the trained weights of minilm-l6 on rotten-tomatoes (the quickstart's settings) at 70 %, three
seeds, each a whole search.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

SPARSITY = 0.7
SEEDS = (0, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", default=".work/store")
    parser.add_argument("--out", default="results.json")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    from tombola import api
    from tombola.cli.progress import reporter
    from tombola.cli.quickstart import SETTINGS
    from tombola.engine.inline import run
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph
    from tombola.tasks.task import DataOptions
    from tombola.verifying.significance import compare
    from tombola.verifying.summary import summarize

    def search(method: str, keep_pooler: bool) -> Any:
        return api.plan_find(
            SETTINGS["model"],
            task=SETTINGS["task"],
            method=method,
            sparsities=(SPARSITY,),
            seeds=SEEDS,
            schedule="one_shot",
            keep_pooler=keep_pooler,
            data=DataOptions(max_train=SETTINGS["max_train"]),
            recipe=api.make_recipe(
                SETTINGS["task"],
                epochs=SETTINGS["epochs"],
                learning_rate=SETTINGS["learning_rate"],
                max_length=SETTINGS["max_length"],
            ),
            numerics=api.make_numerics(SETTINGS["precision"], "cpu", options.threads),
        )

    rows = {
        "magnitude, pooler pruned": search("imp", False),
        "magnitude, pooler kept": search("imp", True),
        "random, pooler pruned": search("random", False),
    }
    graph = Graph(())
    for planned in rows.values():
        graph = graph + planned.graph
    store = Store(options.store)
    with reporter() as watching:
        run(graph, store, reporter=watching)

    def scores(steps: dict[int, Any]) -> list[float]:
        return [
            float(store.read_json(step.out("metrics.json"))["dev"]["accuracy"]) for step in steps.values()
        ]

    def row(steps: dict[int, Any]) -> dict[str, Any]:
        values = scores(steps)
        runs = [step.identity[:12] for step in steps.values()]
        return {"scores": values, "summary": summarize(values).to_json(), "runs": runs}

    pooler = {}
    for name, planned in rows.items():
        shares = [
            store.read_json(candidate.mask.step.out("mask.json"))["sparsity_per_tensor"].get(
                "pooler.dense.weight", 0.0
            )
            for candidate in planned.candidates[SPARSITY].values()
        ]
        pooler[name] = shares
    first = rows["magnitude, pooler pruned"]
    found = {name: planned.retrained[SPARSITY] for name, planned in rows.items()}
    results = {
        "rows": {"full": row(first.dense), **{name: row(steps) for name, steps in found.items()}},
        "pooler_sparsity": pooler,
        "kept_minus_pruned": compare(
            scores(found["magnitude, pooler kept"]), scores(found["magnitude, pooler pruned"])
        ).to_json(),
        "recipe": first.problem.recipe.to_json(),
        "numerics": first.problem.numerics.to_json(),
        "environment": dict(store.run(first.dense[0].identity).environment),  # type: ignore[union-attr]
    }
    Path(options.out).write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    for name, result in results["rows"].items():
        print(
            f"{name:28s} {result['summary']['mean']:.1f} ± {result['summary']['std']:.1f}",
            pooler.get(name, ""),
        )


if __name__ == "__main__":
    main()
