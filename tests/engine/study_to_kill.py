"""A study in a process of its own, for tests that kill it: toys of all kinds and a few real tiny trainings.

    python -m tests.engine.study_to_kill STORE MODEL SENTENCES WORKERS

``WORKERS`` 0 runs it inline. Prints ``finished`` at its end.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.engine import preload_toys
from tests.engine.preload_toys import napping_step
from tests.engine.toy_steps import number_step, total_step

from tombola import api
from tombola.engine.inline import Inline
from tombola.engine.local import Local
from tombola.engine.scheduling import Policy, bring_about
from tombola.engine.store import Store
from tombola.plan.graph import Graph
from tombola.tasks.task import DataOptions

TOYS = (preload_toys.__name__, __name__)


def checkpoint_often() -> None:
    """Also in a worker, which imports this module first."""
    from tombola.plan import train_step

    train_step.SECONDS_BETWEEN_CHECKPOINTS = 0.05


def study(model: str, sentences: str) -> Graph:
    """Naps, numbers and their sums, and two searches with θi: some thirty runs, of all lengths."""
    naps = tuple(napping_step(value, 1.0) for value in range(8))
    numbers = [number_step(value) for value in range(6)]
    sums = (total_step(*numbers[:3]), total_step(*numbers[3:]), total_step(*numbers))
    search = api.plan_find(
        model,
        method="imp",
        sparsities=(0.2,),
        seeds=(0, 1),
        rewind=0.1,
        data=DataOptions(data=Path(sentences), text="text", label="label"),
        recipe=api.make_recipe(None, epochs=6, batch_size=8, learning_rate=1e-2, max_length=16),
        numerics=api.make_numerics(threads=1, device="cpu"),
    )
    return search.graph + Graph((*naps, *sums), outputs=(numbers[0].out("weights.safetensors"),))


def main(root: str, model: str, sentences: str, workers: int) -> None:
    store = Store(root)
    executor = Local(store.root, workers, preload=TOYS) if workers else Inline(store)
    # A killed worker is no fault of its step, however often it happens.
    bring_about(study(model, sentences), store, executor, policy=Policy(retries=1000))
    print("finished", flush=True)


checkpoint_often()
if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
