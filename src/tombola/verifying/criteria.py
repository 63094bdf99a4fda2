"""When a ticket counts as winning: the papers' criteria as named strategies (SPEC 2.5).

F is the mean of the full model's scores, P the ticket's, over the same seeds. Every criterion comes down to
a *threshold*, the lowest P that still passes, and the *gap* = threshold − P that is missing (0 or less: it
holds). For ``within_one_std`` that is F − (P + σ), the gap printed in Table 7 of the BERT tickets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tombola.errors import UsageError, nearest
from tombola.verifying.summary import Summary, checked_scores, fixed, summarize

#: 83.1 + 0.1 is 83.19999999999999 in floating point, and 83.2 must still be "within" it.
ROUND_OFF = 1e-9

Scores = Sequence[float] | Summary


@dataclass(frozen=True)
class Decision:
    """What a criterion says: whether it holds, the mean that was needed, what is missing, in one sentence."""

    holds: bool
    threshold: float
    gap: float
    said: str


@dataclass(frozen=True)
class Criterion:
    """A named way to call a ticket winning. ``amount``: points or ratio; ``std_of``: whose σ counts."""

    name: str
    amount: float | None = None
    std_of: str | None = None

    def __str__(self) -> str:
        if self.amount is not None:
            return f"{self.name}:{self.amount:g}"
        return f"{self.name}:{self.std_of}" if self.std_of == "dense" else self.name

    def undecidable(self, full_scores: Scores, ticket_scores: Scores) -> str | None:
        """Why these scores cannot be judged by this criterion, or None."""
        full, ticket = _summaries(full_scores, ticket_scores)
        return self._undecidable(full, ticket)

    def holds(self, full_scores: Scores, ticket_scores: Scores, *, tolerance: float = 0.0) -> Decision:
        """Judge a ticket against the full model. ``tolerance`` is for numbers rounded for print (0.1)."""
        if not (math.isfinite(tolerance) and tolerance >= 0):
            raise UsageError(f"a tolerance must be 0 or more, not {tolerance}", where="tolerance")
        full, ticket = _summaries(full_scores, ticket_scores)
        problem = self._undecidable(full, ticket)
        if problem is not None:
            raise UsageError(problem, where=str(self), todo="run more seeds, or judge by another criterion")
        threshold = self._threshold(full, ticket)
        gap = threshold - ticket.mean
        verdict = gap <= tolerance + ROUND_OFF
        return Decision(verdict, threshold, gap, self._said(full, ticket, threshold, gap, verdict, tolerance))

    def _undecidable(self, full: Summary, ticket: Summary) -> str | None:
        if self.std_of is not None and (ticket if self.std_of == "ticket" else full).std is None:
            return f"one run has no standard deviation, so {self} cannot be judged"
        if self.name == "within_ratio" and full.mean <= 0:
            return f"{self} needs a full score above 0: a share of {full.text()} means nothing"
        return None

    def _threshold(self, full: Summary, ticket: Summary) -> float:
        if self.std_of is not None:
            std = (ticket if self.std_of == "ticket" else full).std
            return full.mean - (std or 0.0)
        if self.name == "within_ratio":
            return (self.amount or 0.0) * full.mean
        return full.mean - (self.amount or 0.0)

    def _said(
        self, full: Summary, ticket: Summary, threshold: float, gap: float, verdict: bool, tolerance: float
    ) -> str:
        text = f"{self}: ticket {ticket.text()}, full {full.text()}, needed {fixed(threshold, 2)}: "
        text += "holds" if verdict else f"misses by {gap:.2g}"
        if verdict and gap > ROUND_OFF:
            text += f" (within the tolerance of {tolerance:g})"
        if full.n and ticket.n and full.n != ticket.n:
            text += f"; the full model has {full.n} runs, the ticket {ticket.n}"
        return text


def within_points(points: float = 2.0) -> Criterion:
    """P ≥ F − points (the first submission's two points)."""
    if not (math.isfinite(points) and points >= 0):
        raise UsageError(f"within_points needs 0 points or more, not {points}", where="criterion")
    return Criterion("within_points", amount=float(points))


def within_one_std(std_of: str = "ticket") -> Criterion:
    """F ≤ P + σ, σ of the ticket's runs (main tables) or of the ``dense`` model's (Figure 6's caption)."""
    if std_of not in ("ticket", "dense"):
        todo = nearest(str(std_of), ["ticket", "dense"])
        raise UsageError(f"there is no std of '{std_of}'", where="within_one_std", todo=todo)
    return Criterion("within_one_std", std_of=std_of)


def match_or_exceed() -> Criterion:
    """P ≥ F (Table 4)."""
    return Criterion("match_or_exceed")


def within_ratio(ratio: float = 0.98) -> Criterion:
    """P ≥ ratio · F (0.98: continuous sparsification's one-shot criterion; 0.9: Prasanna et al.)."""
    if not (math.isfinite(ratio) and 0 < ratio <= 1):
        raise UsageError(f"within_ratio needs a ratio above 0 and at most 1, not {ratio}", where="criterion")
    return Criterion("within_ratio", amount=float(ratio))


#: Every criterion by its name on the command line.
CRITERIA: dict[str, Callable[..., Criterion]] = {
    "within_points": within_points,
    "within_one_std": within_one_std,
    "match_or_exceed": match_or_exceed,
    "within_ratio": within_ratio,
}


def parse(text: str) -> Criterion:
    """Read a criterion as it is typed: a name, with ``:value`` (``within_points:2``) if wanted."""
    name, colon, argument = text.strip().partition(":")
    name = name.strip().replace("-", "_")
    argument = argument.strip()
    if name not in CRITERIA:
        raise UsageError(f"there is no criterion '{name}'", where=text, todo=nearest(name, list(CRITERIA)))
    if not colon:
        return CRITERIA[name]()
    if name == "match_or_exceed":
        raise UsageError("match_or_exceed takes no value", where=text, todo="write match_or_exceed")
    if name == "within_one_std":
        return within_one_std(argument)
    try:
        value = float(argument)
    except ValueError:
        example = f"write {CRITERIA[name]()}"
        raise UsageError(f"'{argument}' is not a number", where=text, todo=example) from None
    return CRITERIA[name](value)


def highest_winning(
    full_scores: Scores, by_sparsity: Mapping[float, Scores], criterion: Criterion, *, tolerance: float = 0.0
) -> float | None:
    """The highest sparsity of the grid whose tickets satisfy the criterion, or None.

    It is the highest that does, as the papers report it, even where a lower one happens to fail.
    """
    winning = [
        sparsity
        for sparsity, scores in by_sparsity.items()
        if criterion.holds(full_scores, scores, tolerance=tolerance).holds
    ]
    return max(winning, default=None)


def degenerate(full_scores: Scores, majority: float) -> bool:
    """Is the full model no better than the most frequent class alone (WNLI)? Then winning says nothing."""
    full = _summary(full_scores, "full")
    (majority,) = checked_scores([majority], "majority")
    return full.mean <= majority + ROUND_OFF


def _summaries(full_scores: Scores, ticket_scores: Scores) -> tuple[Summary, Summary]:
    return _summary(full_scores, "full"), _summary(ticket_scores, "ticket")


def _summary(scores: Scores, name: str) -> Summary:
    return scores if isinstance(scores, Summary) else summarize(checked_scores(scores, name))
