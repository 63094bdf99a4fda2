"""The registry of methods: name, the papers' other names, one line about it, and its plan function.

A method is one file with a function ``plan(problem, settings, seed)`` that says, for every sparsity asked for, which
step makes the mask and where the ticket's weights start. Adding one is that file and a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tombola.errors import UsageError, nearest

if TYPE_CHECKING:
    from tombola.finding.settings import SearchSettings
    from tombola.plan.problem import Problem
    from tombola.plan.trainings import Candidate


@dataclass(frozen=True)
class Method:
    """``module`` is imported when the method is used: listing methods must not load torch."""

    name: str
    about: str
    module: str
    #: the settings beside sparsities and seeds that it reads; any other is refused, never silently ignored
    reads: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()

    def refuse_ignored(self, settings: SearchSettings) -> None:
        """A setting that was changed and that this method does not read is a mistake."""
        for name in ("schedule", "step", "rewind", "scope"):
            default = type(settings).__dataclass_fields__[name].default
            if name not in self.reads and getattr(settings, name) != default:
                raise UsageError(
                    f"method '{self.name}' does not read {name}",
                    where=name,
                    todo="leave it out"
                    + (", or use --method imp" if name != "scope" else ", or use --method random"),
                )

    @property
    def plan(self) -> Callable[[Problem, SearchSettings, int], dict[float, Candidate]]:
        return import_module(self.module).plan


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "imp",
            "iterative magnitude pruning with rewinding: train, drop the smallest weights, rewind, repeat",
            "tombola.finding.iterative_magnitude",
            reads=frozenset({"schedule", "step", "rewind"}),
            aliases=("iterative-magnitude-pruning", "lth"),
        ),
        Method(
            "magnitude",
            "one shot: drop the smallest pre-trained weights, without any training",
            "tombola.finding.one_shot",
            aliases=("one-shot", "oneshot"),
        ),
        Method(
            "random",
            "a uniformly random mask of exact size: the control that a ticket has to beat",
            "tombola.finding.random_ticket",
            reads=frozenset({"scope"}),
            aliases=("rp",),
        ),
    )
}


def get_method(name: str) -> Method:
    """The method of this name or alias."""
    wanted = name.lower().replace("_", "-")
    for method in METHODS.values():
        if wanted == method.name or wanted in method.aliases:
            return method
    raise UsageError(f"there is no method '{name}'", where="method", todo=nearest(wanted, list(METHODS)))
