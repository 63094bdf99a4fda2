"""The registry of methods: name, the papers' other names, one line about it, and its plan function.

A method is one file with a function ``plan(problem, settings, seed)`` that says, for every sparsity asked for, which
step makes the mask and where the ticket's weights start. Adding one is that file and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING

from tombola.errors import UsageError, nearest
from tombola.masks.levels import LEVELS

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
    #: makes smaller models at several levels and chooses one of them, instead of a mask at each sparsity
    levels: bool = False

    def refuse_ignored(self, settings: SearchSettings) -> None:
        """A setting that was changed and that this method does not read is a mistake."""
        for field in fields(settings):
            read = field.name in ("sparsities", "seeds") or field.name in self.reads
            if not read and getattr(settings, field.name) != field.default:
                readers = [method.name for method in METHODS.values() if field.name in method.reads]
                raise UsageError(
                    f"method '{self.name}' does not read {field.name}",
                    where=field.name,
                    todo=f"leave it out, or use --method {' or '.join(readers)}",
                )

    def grid(self, sparsities: Sequence[float] | None, levels: Sequence[float] | None) -> tuple[float, ...]:
        """The sparsities, or the levels, that this method is asked for."""
        given, other, name = (
            (levels, sparsities, "levels") if self.levels else (sparsities, levels, "sparsity")
        )
        if other is not None:
            raise UsageError(
                f"method '{self.name}' does not read {'sparsity' if self.levels else 'levels'}",
                where="sparsity" if self.levels else "levels",
                todo=f"give {name} instead",
            )
        if given is None:
            return LEVELS if self.levels else (0.5,)
        return tuple(given)

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
        Method(
            "super",
            "super tickets: remove the least important heads and FFNs at several levels, keep the best level",
            "tombola.finding.super_ticket",
            reads=frozenset({"ffn_rule", "granularity", "select_share", "select_seed", "include_full"}),
            aliases=("super-ticket", "super-tickets"),
            levels=True,
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
