"""Which levels of a super-ticket search are worth training, and which fit a budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from tombola.errors import UsageError
from tombola.finding.methods import get_method
from tombola.finding.search import Search, plan_search
from tombola.finding.super_outcome import SuperOutcome

#: A level and the one before it so many points below the best so far: no higher one is trained.
HOPELESS_POINTS = 5.0
_BUDGET = re.compile(r"\s*(params|latency)\s*(?:@\s*(\d+)\s*x\s*(\d+)\s*)?<=\s*([0-9.]+)\s*(%?)\s*")


@dataclass(frozen=True)
class Budget:
    """What the ticket may cost at most, as a share of the full model.

    ``params``: of all parameters, as ``remaining_weight`` counts them; ``latency``: of the time of one forward pass
    of ``batch`` × ``length`` tokens, measured here and now.
    """

    kind: Literal["params", "latency"]
    most: float
    batch: int = 1
    length: int = 128

    def __str__(self) -> str:
        place = f" at batch {self.batch} × length {self.length}" if self.kind == "latency" else ""
        return f"{self.kind} <= {self.most:g} of the full model's{place}"


def read_budget(text: str) -> Budget:
    """``params<=0.5``, ``latency<=70%``, or ``latency@8x128<=0.7`` with the batch and the length it is about."""
    found = _BUDGET.fullmatch(text)
    examples = '"params<=0.5", "latency<=0.7" or "latency@8x128<=0.7"'
    if found is None:
        raise UsageError(f"'{text}' is no budget", where="--budget", todo=f"give {examples}")
    kind, batch, length, amount, percent = found.groups()
    try:
        most = float(amount) / (100 if percent else 1)
    except ValueError:
        raise UsageError(f"'{amount}' is no number", where="--budget", todo=f"give {examples}") from None
    if not 0 < most < 1:
        raise UsageError(
            f"a budget of {most:g} of the full model is no bound",
            where="--budget",
            todo=f"give a share between 0 and 1: {examples}",
        )
    if kind == "params" and batch:
        raise UsageError("the number of parameters has no batch", where="--budget", todo='give "params<=0.5"')
    if batch and not (int(batch) and int(length)):
        raise UsageError(f"a batch of {batch} x {length} is empty", where="--budget", todo=f"give {examples}")
    return Budget(kind, most, int(batch or 1), int(length or 128))  # type: ignore[arg-type]


def at_levels(search: Search, levels: Iterable[float]) -> Search:
    """The same search over other levels: what both train is the same step."""
    settings = replace(search.settings, sparsities=tuple(levels))
    return plan_search(search.problem, settings, get_method(search.method))


def within(search: Search, budget: Budget, cost: Callable[[float], float]) -> Search:
    """The search among the levels that fit; ``cost`` is a level's share of the full model."""
    costs = {level: cost(level) for level in search.settings.sparsities}
    fitting = tuple(level for level, share in costs.items() if share <= budget.most)
    if not fitting:
        level, share = min(costs.items(), key=lambda item: item[1])
        raise UsageError(
            f"no level fits {budget}: the cheapest, {level:.0%}, takes {share:.2f}",
            where="--budget",
            todo="allow more, or give higher levels: --levels 80%,90%",
        )
    return at_levels(search, fitting)


def hopeless(outcome: SuperOutcome) -> bool:
    """Whether the two highest levels so far are both far below the best, by the share that levels are chosen on."""
    levels = outcome.search.settings.sparsities
    means = [sum(scores) / len(scores) for scores in (outcome.at(level, "share") for level in (0.0, *levels))]
    return len(levels) > 1 and max(means[-2:]) < max(means) - HOPELESS_POINTS
