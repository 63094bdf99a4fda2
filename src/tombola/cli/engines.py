"""Which engine runs the steps: read from options, made for what a graph's trainings want (threads, GPUs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.errors import UsageError, nearest

if TYPE_CHECKING:
    from tombola.engine.protocol import Executor
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph

ENGINES = ("inline", "local", "ray")


def check_engine(engine: str, workers: int | None, address: str | None) -> None:
    """Before anything is planned."""
    if engine not in ENGINES:
        raise UsageError(f"there is no engine '{engine}'", where="--engine", todo=nearest(engine, ENGINES))
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers can do nothing", where="--workers", todo="give 1 or more")
    if engine == "inline" and workers not in (None, 1):
        raise UsageError(
            "the inline engine works in this process alone", where="--workers", todo="choose --engine local"
        )
    if address is not None and engine != "ray":
        raise UsageError("only the ray engine has an address", where="--address", todo="add --engine ray")


def executor_for(
    engine: str, graph: Graph, store: Store, workers: int | None, address: str | None
) -> Executor:
    """The executor for this graph: engines obey the numerics of its trainings, they never choose them."""
    numerics = [step.parameters["numerics"] for step in graph.steps if "numerics" in step.parameters]
    threads = max((entry["threads"] for entry in numerics), default=1)
    gpus = any(entry["device"] == "cuda" for entry in numerics)
    if engine == "inline":
        from tombola.engine.inline import Inline

        return Inline(store)
    if engine == "local":
        from tombola.engine.local import Local

        return Local(store.root, workers, threads=threads, gpus=gpus)
    from tombola.engine.ray_tasks import Ray

    return Ray(store.root, address, workers, threads=threads, gpus=gpus)
