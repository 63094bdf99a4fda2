"""A graph: the steps that some wanted results need, each once, inputs before the steps that read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tombola.plan.step import Ref, Step


@dataclass(frozen=True)
class Graph:
    """``wanted`` are the steps whose kept results somebody will read; ``outputs`` the transient files besides."""

    wanted: tuple[Step, ...]
    outputs: tuple[Ref, ...] = ()

    @property
    def ends(self) -> tuple[Step, ...]:
        """The steps that the graph is read at."""
        return (*self.wanted, *(ref.step for ref in self.outputs))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step once (by identity), in an order in which each comes after its inputs."""
        ordered: dict[str, Step] = {}
        # An explicit stack: a chain of IMP rounds may be longer than Python's recursion limit.
        stack: list[tuple[Step, bool]] = [(step, False) for step in reversed(self.ends)]
        while stack:
            step, inputs_placed = stack.pop()
            if step.identity in ordered:
                continue
            if inputs_placed:
                ordered[step.identity] = step
                continue
            stack.append((step, True))
            stack.extend((ref.step, False) for ref in reversed(list(step.inputs.values())))
        return tuple(ordered.values())

    def __add__(self, other: Graph) -> Graph:
        return Graph(unique([*self.wanted, *other.wanted]), (*self.outputs, *other.outputs))


def unique(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps without repetition, first occurrence kept."""
    return tuple({step.identity: step for step in steps}.values())
