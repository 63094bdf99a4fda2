"""The controls of a ticket, all of its size and evaluated the same way (BERT tickets, Table 2; SPEC 2.3).

| name      | mask                                     | start                                    |
|-----------|------------------------------------------|------------------------------------------|
| random    | uniformly random, exact size             | pre-trained; θi where the ticket's is θi |
| reinit    | the ticket's                             | θ0′: re-initialised as the class does it |
| shuffle   | the ticket's                             | θ0″: layers permuted as blocks           |
| shuffle-within | the ticket's                        | θ0″: values shuffled inside each matrix  |
| magnitude | lowest |θ0| dropped, one shot            | pre-trained                              |

A structured ticket has the same ones where they mean something; the claim says which do not (``claim.refuses``).
"""

from __future__ import annotations

from collections.abc import Callable

from tombola.errors import UsageError, nearest
from tombola.plan.problem import Problem
from tombola.plan.trainings import Candidate, Start
from tombola.streams import derive
from tombola.verifying.claim import Claim, WeightClaim

#: (problem, the ticket, what it claims of its size, seed) -> the control's mask and start
Control = Callable[[Problem, Candidate, Claim, int], Candidate]


def random(problem: Problem, ticket: Candidate, claim: Claim, seed: int) -> Candidate:
    """m_RP ⊙ θ0: how far any mask of this size comes."""
    return Candidate(claim.random(problem, _own_stream(seed)), _whole_start(ticket))


def random_per_layer(problem: Problem, ticket: Candidate, claim: Claim, seed: int) -> Candidate:
    """m_RP with the ticket's number of zeros inside each matrix: does more than its layer profile matter?"""
    mask = claim.random_per_layer(problem, ticket.mask, _own_stream(seed))
    return Candidate(mask, _whole_start(ticket))


def reinit(problem: Problem, ticket: Candidate, claim: Claim, seed: int) -> Candidate:
    """m ⊙ θ0′: does the ticket need the pre-trained weights?"""
    return Candidate(ticket.mask, Start("reinit", seed=seed))


def shuffle(problem: Problem, ticket: Candidate, claim: Claim, seed: int) -> Candidate:
    """m ⊙ θ0″ with whole layers permuted: does the ticket need each layer in its place?"""
    return Candidate(ticket.mask, Start("shuffled_layers", seed=seed))


def shuffle_within(problem: Problem, ticket: Candidate, claim: Claim, seed: int) -> Candidate:
    """m ⊙ θ0″ with the values of each matrix shuffled: does the ticket need each weight in its place?"""
    return Candidate(ticket.mask, Start("shuffled_within", seed=seed))


def magnitude(problem: Problem, ticket: Candidate, claim: Claim, seed: int) -> Candidate:
    """The one-shot mask of |θ0|: does the search find more than the pre-trained magnitudes tell?"""
    return Candidate(claim.magnitude(problem), Start())


def _own_stream(seed: int) -> int:
    """A random ticket must not be its own control: the same seed draws another mask here."""
    return derive(seed, "control")


def _whole_start(ticket: Candidate) -> Start:
    """θ0, or θi for a rewound ticket. Not θt of standard pruning: that is pruned already, by another mask."""
    return ticket.start if ticket.start.first_step else Start()


CONTROLS: dict[str, Control] = {
    "random": random,
    "random-per-layer": random_per_layer,
    "reinit": reinit,
    "shuffle": shuffle,
    "shuffle-within": shuffle_within,
    "magnitude": magnitude,
}


def check_controls(names: tuple[str, ...], claim: type[Claim] | Claim = WeightClaim) -> None:
    """Refuse a control nobody knows, or of no meaning here; ``full`` is the full model, always there."""
    for name in names:
        if name != "full" and name not in CONTROLS:
            raise UsageError(
                f"there is no control '{name}'", where="against", todo=nearest(name, ["full", *CONTROLS])
            )
        if name in claim.refuses:
            able = [other for other in ("full", *CONTROLS) if other not in claim.refuses]
            raise UsageError(
                f"'{name}' is no control of this ticket: {claim.refuses[name]}",
                where="against",
                todo=f"choose from {', '.join(able)}",
            )
