"""Surroundings of a study's runs: the same bytes are promised within one environment only (DESIGN 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tombola.canonical import canonical_json
from tombola.engine.environment import environment
from tombola.engine.store import Store
from tombola.errors import StoreError
from tombola.studies.carrying_out import StoreKnows, planned
from tombola.studies.study import Study


def environments(studies: Sequence[Study], store: Store) -> dict[str, tuple[Mapping[str, Any], int]]:
    """Every environment that the finished runs of these studies were made in, and how many."""
    known = StoreKnows(store)
    found: dict[str, tuple[Mapping[str, Any], int]] = {}
    for step in planned(studies, known).graph.steps:
        run = store.run(known.run(step))
        if run is not None:
            text = canonical_json(dict(run.environment))
            found[text] = (run.environment, found.get(text, ({}, 0))[1] + 1)
    return found


def mixed_environments(studies: Sequence[Study], store: Store) -> tuple[str, ...]:
    """A note for a study whose runs come from different surroundings; nothing to say of one."""
    found = environments(studies, store)
    if len(found) < 2:
        return ()
    parts = [f"{count} in {text}" for text, (_, count) in sorted(found.items(), key=lambda item: -item[1][1])]
    return (f"The runs were made in {len(found)} environments: {'; '.join(parts)}.",)


def refuse_other_environments(studies: Sequence[Study], store: Store) -> None:
    """Every finished run must have been made in the environment of this machine."""
    here = canonical_json(environment())
    for text, (_, count) in environments(studies, store).items():
        if text != here:
            raise StoreError(
                f"{count} runs were made in another environment: {text}; here it is {here}",
                where=str(store.root),
                todo="leave --strict-environment out, or give another --store",
            )
