"""What a graph would still cost: steps, disk, time. Nothing is stored.

The time a training takes is read off finished trainings of the same model, task, recipe and numerics in this store;
where there is none, a few steps are run and thrown away.
"""

from __future__ import annotations

from typing import Any

from tombola.engine import rates
from tombola.engine.pending import pending
from tombola.engine.store import Store
from tombola.plan.graph import Graph
from tombola.plan.step import Step

PROBE_STEPS = 6
#: Metrics, losses, predictions and manifests of one training, roughly.
KEPT_BYTES = 100_000


def estimate(graph: Graph, store: Store) -> dict[str, Any]:
    """Counts, bytes and seconds for what is not done yet."""
    work = pending(graph, store, glance=True)
    to_run = [step for step in graph.steps if step.identity in work]
    trainings = [step for step in to_run if step.kind == "train"]
    optimizer_steps = sum(step.cost for step in trainings)
    models = {(step.sources["model"]["name"], step.sources["model"]["revision"]): step for step in trainings}
    weights = max((_weight_bytes(step) for step in models.values()), default=0)
    waiting = max((len(outputs) for outputs in work.values()), default=0)
    seconds, source = _seconds(trainings, store) if trainings else (0.0 if to_run else None, "masks only")
    return {
        "steps": len(graph.steps),
        "done": len(graph.steps) - len(to_run),
        "to_run": len(to_run),
        "trainings": len(trainings),
        "optimizer_steps": optimizer_steps,
        # A training under way has two checkpoints of weights and two moments each; then what the next step reads.
        "disk_bytes": weights * (6 + waiting) + KEPT_BYTES * len(to_run),
        "kept_bytes": KEPT_BYTES * len(to_run) + weights * len(graph.outputs),
        "seconds": seconds,
        "seconds_from": source,
    }


def _seconds(trainings: list[Step], store: Store) -> tuple[float, str]:
    """Seconds for all of them, and where the rate comes from; each kind of training has a rate of its own."""
    kinds: dict[str, list[Step]] = {}
    keys: dict[tuple[int, ...], str] = {}
    for step in trainings:
        # Steps share what they say alike, so that few of a hundred thousand have to be hashed.
        alike = tuple(id(step.parameters[name]) for name in rates.RATE_KEYS)
        if alike not in keys:
            keys[alike] = rates.key_of(step.parameters)
        kinds.setdefault(keys[alike], []).append(step)
    known = rates.known(store)
    total, probed = 0.0, False
    for key, steps in kinds.items():
        if key not in known:
            known[key], probed = _probe(steps[0]), True
        total += known[key] * sum(step.cost for step in steps)
    return total, f"by a probe of {PROBE_STEPS} steps" if probed else "by trainings in this store"


def _probe(step: Step) -> float:
    """Seconds an optimizer step takes here, on the first batches of this training's own data."""
    from tombola.plan.materials import encoded_split
    from tombola.plan.train_step import starting_model
    from tombola.training.loop import train
    from tombola.training.recipe import Numerics, Recipe
    from tombola.training.sparsity import Dense

    parameters = {**step.parameters, "start": {**step.parameters["start"], "kind": "pretrained"}}
    recipe = Recipe.from_json(parameters["recipe"]).without_stopping()
    data = encoded_split(step.sources, "train", recipe.max_length)
    model = starting_model(parameters, {}, step.sources)
    marks: list[float] = []
    total = recipe.total_steps(len(data))
    first = max(total - PROBE_STEPS, 0)
    train(
        model,
        data,
        recipe,
        Numerics.from_json(parameters["numerics"]),
        seed=0,
        purpose="probe",
        sparsity=Dense(),
        first_step=first,
        progress=lambda _done, _total, seconds: marks.append(seconds),
    )
    # The first step pays for warming up.
    return (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else marks[-1]


def _weight_bytes(step: Step) -> int:
    from tombola.models.resolve import resolve

    # By the files alone: to prove that they are the planned ones is for whoever runs the step.
    named = step.sources["model"]
    folder = resolve(named["name"], named["revision"]).folder
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))
