"""What of a graph is not done yet, asked of the store; and what stands in for steps that ran out of memory."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from tombola import files
from tombola.engine.store import Store
from tombola.errors import CorruptArtifact, StoreError
from tombola.plan.graph import Graph
from tombola.plan.step import Ref, Step


def pending(graph: Graph, store: Store, *, glance: bool = False) -> dict[str, set[str]]:
    """Identity → transient outputs to make, for every step that must run; nothing for what is done.

    A ``glance`` believes that whatever has a folder is done, as a dry run may; otherwise every manifest is read
    and every file's size compared.
    """
    needs: dict[str, set[str]] = {step.identity: set() for step in graph.wanted}
    for ref in graph.outputs:
        needs.setdefault(ref.step.identity, set()).add(ref.output)
    published = store.published()
    work: dict[str, set[str]] = {}
    for step in reversed(graph.steps):
        wanted = needs.get(step.identity)
        if wanted is None:
            continue
        if step.identity in published and ((glance and not wanted) or store.is_there(step.identity, wanted)):
            continue
        work[step.identity] = wanted
        for ref in step.inputs.values():
            needs.setdefault(ref.step.identity, set()).add(ref.output)
    return work


def substitute(step: Step, store: Store) -> Step | None:
    """Let a smaller micro-batch stand in for a step that ran out of memory, from now on; None if none is smaller.

    It is another identity (its bits differ), written down beside the first so that the next start uses it at once.
    """
    if not {"numerics", "recipe"} <= step.parameters.keys():
        return None
    now = _micro_batch(step)
    if now <= 1:
        return None
    smaller = now // 2
    files.write_json(
        store.root / "substitutes" / f"{step.identity}.json",
        {"micro_batch": smaller, "because": f"out of memory with {now} examples at a time"},
    )
    return _with_micro_batch(step, smaller)


def substituted(graph: Graph, store: Store) -> tuple[Graph, dict[str, Step]]:
    """The graph with what stands in, and a map from planned identities to the steps that are run instead.

    Whatever reads a substitute has another input and so another identity too.
    """
    noted = {path.stem for path in (store.root / "substitutes").glob("*.json")}
    if not noted:
        return graph, {}
    now: dict[str, Step] = {}
    for step in graph.steps:
        inputs = {
            port: Ref(now.get(ref.step.identity, ref.step), ref.output) for port, ref in step.inputs.items()
        }
        changed = step
        if any(ref.step.identity != step.inputs[port].step.identity for port, ref in inputs.items()):
            changed = replace(step, inputs=inputs)
        while changed.identity in noted:
            changed = _with_micro_batch(changed, _noted(changed, store))
        if changed is not step:
            now[step.identity] = changed
    wanted = tuple(now.get(step.identity, step) for step in graph.wanted)
    outputs = tuple(Ref(now.get(ref.step.identity, ref.step), ref.output) for ref in graph.outputs)
    return Graph(wanted, outputs), now


def _noted(step: Step, store: Store) -> int:
    """The smaller micro-batch that was noted for a step."""
    path = store.root / "substitutes" / f"{step.identity}.json"
    with contextlib.suppress(CorruptArtifact, KeyError, TypeError):
        smaller = files.read_json(path)["micro_batch"]
        if type(smaller) is int and 1 <= smaller < _micro_batch(step):
            return smaller
    raise StoreError(
        "the note of a substitute is damaged",
        where=str(path),
        todo="delete it: the step is then tried as it was planned",
    )


def _micro_batch(step: Step) -> int:
    """How many examples a step takes at a time."""
    return step.parameters["numerics"]["micro_batch"] or step.parameters["recipe"]["batch_size"]


def _with_micro_batch(step: Step, micro_batch: int) -> Step:
    numerics = {**step.parameters["numerics"], "micro_batch": micro_batch}
    return replace(step, parameters={**step.parameters, "numerics": numerics})
