"""Which engine runs the steps: read from options, made for what a graph's trainings want (threads, GPUs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.errors import UsageError, nearest

if TYPE_CHECKING:
    from tombola.api import Engine
    from tombola.engine.protocol import Executor
    from tombola.engine.store import Store
    from tombola.plan.graph import Graph

ENGINES = ("inline", "local", "ray")


def engine_of(name: str, workers: int | None, address: str | None) -> Engine:
    """What makes the executor of a graph. Mistakes are told before anything is planned."""
    if name not in ENGINES:
        raise UsageError(f"there is no engine '{name}'", where="--engine", todo=nearest(name, ENGINES))
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers can do nothing", where="--workers", todo="give 1 or more")
    if name == "inline" and workers not in (None, 1):
        raise UsageError(
            "the inline engine works in this process alone", where="--workers", todo="choose --engine local"
        )
    if address is not None and name != "ray":
        raise UsageError("only the ray engine has an address", where="--address", todo="add --engine ray")
    return lambda graph, store: _executor(name, graph, store, workers, address)


def threads_for(engine: str, threads: int | None) -> int | None:
    """Several workers share the cores: one thread each, unless the user says otherwise."""
    return 1 if threads is None and engine != "inline" else threads


def _executor(name: str, graph: Graph, store: Store, workers: int | None, address: str | None) -> Executor:
    """Engines obey the numerics of a graph's trainings, they never choose them."""
    numerics = [step.parameters["numerics"] for step in graph.steps if "numerics" in step.parameters]
    threads = max((entry["threads"] for entry in numerics), default=1)
    gpus = any(entry["device"] == "cuda" for entry in numerics)
    if gpus and name != "ray":
        refuse_without_gpu()
    if name == "inline":
        from tombola.engine.inline import Inline

        return Inline(store)
    if name == "local":
        from tombola.engine.local import Local

        return Local(store.root, workers, threads=threads, gpus=gpus)
    from tombola.engine.ray_tasks import Ray

    return Ray(store.root, address, workers, threads=threads, gpus=gpus)


def refuse_without_gpu() -> None:
    """Before the first step, not once for each: what is planned for a GPU cannot run on a machine without."""
    import torch

    if not torch.cuda.is_available():
        raise UsageError(
            "this is planned for a GPU (device cuda), and there is none here",
            where="numerics.device",
            todo="run it where there is one, send it to a cluster (--engine ray --address …), or plan for the CPU: "
            "--set numerics.device=cpu in a study, --device cpu elsewhere",
        )
