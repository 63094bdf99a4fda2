"""Learning-rate schedules: pure functions of the step, so that rewinding needs nothing but a step number."""

from __future__ import annotations

from collections.abc import Callable


def linear(step: int, total: int, warmup: int = 0) -> float:
    """The factor of the step counted from 0: up from 0 over ``warmup`` steps, then down to 0.

    It is 0 at ``total``, after the last step; the last step itself still has 1/(total − warmup), as in the
    papers' code. Every round of a search starts again at step 0 (SPEC 5, trap 2).
    """
    if step < warmup:
        return step / warmup
    return max(0.0, (total - step) / max(1, total - warmup))


#: Every schedule by the name that a recipe uses.
SCHEDULES: dict[str, Callable[[int, int, int], float]] = {"linear": linear}


def learning_rate_factor(step: int, total: int, warmup: int = 0, schedule: str = "linear") -> float:
    """What the recipe's learning rate is multiplied with at ``step``."""
    return SCHEDULES[schedule](step, total, warmup)
