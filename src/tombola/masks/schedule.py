"""How much is pruned: exact counts, and the rounds of iterative pruning (BERT tickets, section 2; CS, section 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from tombola.errors import RecipeError, nearest

MOST_ROUNDS = 1000


def round_sparsities(kind: str, target: float, step: float) -> tuple[float, ...]:
    """The sparsity after every round; the last one is ``target`` itself.

    ``linear`` takes the share ``step`` of the *original* weights each round (0.1, 0.2, …), ``geometric`` the
    share ``step`` of what *remains* (1 − (1 − step)^k), ``one_shot`` everything at once. Computed in decimals
    so that three rounds of 0.1 are 0.3 and not 0.30000000000000004: sparsities stand in identities.
    """
    if kind not in SCHEDULES:
        raise RecipeError(
            f"no schedule is called '{kind}'", where="schedule", todo=nearest(kind, tuple(SCHEDULES))
        )
    if not (math.isfinite(target) and 0 < target < 1):
        raise RecipeError(
            f"a target sparsity of {target} cannot be pruned to",
            where="sparsity",
            todo="give a share between 0 and 1, both excluded: 0.7 for 70 %",
        )
    if not (math.isfinite(step) and 0 < step < 1):
        raise RecipeError(
            f"a pruning step of {step} cannot be taken",
            where="step",
            todo="give a share between 0 and 1, both excluded: 0.1 for 10 % a round",
        )
    return SCHEDULES[kind](Decimal(repr(float(target))), Decimal(repr(float(step))))


def zeros_wanted(size: int, sparsity: float) -> int:
    """round(s·N), halves up, of the decimal number ``sparsity`` as it is written (0.7 of 10 is 7)."""
    if not (math.isfinite(sparsity) and 0 <= sparsity <= 1):
        raise RecipeError(
            f"{sparsity} is no sparsity",
            where="sparsity",
            todo="a sparsity is the share of prunable weights that are zero: between 0 and 1 (0.7 for 70 %)",
        )
    wanted = Decimal(repr(float(sparsity))) * size
    return int(wanted.to_integral_value(rounding=ROUND_HALF_UP))


def _linear(target: Decimal, step: Decimal) -> tuple[float, ...]:
    return _rounds(target, lambda round_number: step * round_number)


def _geometric(target: Decimal, step: Decimal) -> tuple[float, ...]:
    return _rounds(target, lambda round_number: 1 - (1 - step) ** round_number)


def _one_shot(target: Decimal, step: Decimal) -> tuple[float, ...]:
    return (float(target),)


def _rounds(target: Decimal, sparsity_after: Callable[[int], Decimal]) -> tuple[float, ...]:
    sparsities: list[float] = []
    for round_number in range(1, MOST_ROUNDS + 1):
        sparsity = sparsity_after(round_number)
        if sparsity >= target:
            return (*sparsities, float(target))
        sparsities.append(float(sparsity))
    raise RecipeError(
        f"this schedule does not reach {target} within {MOST_ROUNDS} rounds",
        where="step",
        todo="take a larger step",
    )


#: The one registry of schedules.
SCHEDULES: dict[str, Callable[[Decimal, Decimal], tuple[float, ...]]] = {
    "linear": _linear,
    "geometric": _geometric,
    "one_shot": _one_shot,
}
