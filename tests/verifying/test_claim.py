"""Claims: what a ticket says of its size, how trained weights are counted against it, controls of the same size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.problems import made_up_problem

from tombola.errors import UsageError
from tombola.masks.structure_mask import StructureMask
from tombola.masks.structure_sizes import StructureSizes
from tombola.plan.structures import random_structure
from tombola.plan.trainings import Candidate, Start, random_mask, ticket_import
from tombola.verifying.claim import StructureClaim, WeightClaim
from tombola.verifying.controls import CONTROLS
from tombola.verifying.criteria import within_points
from tombola.verifying.verification import judge, plan_verification

#: A head weighs 64, an FFN 256.
SIZES = StructureSizes(8, 2, 16, heads=(4, 4, 4), parameters=2000, encoder=1600)
PROBLEM = replace(made_up_problem(), model=replace(made_up_problem().model, sizes=SIZES))
MASK = StructureMask(
    ((True, True, False, True), (True,) * 4, (False, False, False, True)), (True, False, True)
)
CLAIM = StructureClaim.of(MASK, SIZES)
IMPORTED = ticket_import(PROBLEM, ticket="t" * 64, folder="somewhere", structured=True)
TICKET = Candidate(IMPORTED.out("structure.json"), Start())
STRUCTURED = ("full", "random", "reinit", "shuffle", "shuffle-within")


def counted(heads=(3, 4, 1), ffns=(1, 0, 1), parameters=1450) -> dict[str, Any]:
    """Metrics of a trained structure: 2000 − 512 weights of matrices are left, and 38 biases are gone."""
    return {"structure": {"heads": list(heads), "ffns": list(ffns), "parameters": parameters}}


def planned(against=("full", "random"), claim=CLAIM, seeds=(0, 1, 2)):
    return plan_verification(PROBLEM, dict.fromkeys(seeds, TICKET), claim, against)


# --- weights ----------------------------------------------------------------------


def test_a_sparsity_is_counted_in_the_weights():
    claim = WeightClaim(50, 100)
    assert claim.claimed == 0.5
    assert claim.measured({"sparsity": {"zeros": 49}}) == 0.49
    assert claim.holds({"sparsity": {"zeros": 50}})
    assert not claim.holds({"sparsity": {"zeros": 49}})
    assert not claim.holds({"sparsity": {"zeros": 51}})
    large = WeightClaim(50_000, 100_000)
    assert large.holds({"sparsity": {"zeros": 50_010}}), "kept weights may happen to be 0"
    assert not large.holds({"sparsity": {"zeros": 50_011}})


def test_the_steps_of_weight_tickets_are_named_as_ever():
    """Verifications that were run before structured tickets existed are still found in their stores."""
    problem = made_up_problem()
    ticket = Candidate(random_mask(problem, zeros=50, seed=77).out("mask.safetensors"), Start())
    plan = plan_verification(problem, {3: ticket}, WeightClaim(50, 100), ("full", *CONTROLS))
    assert {name: row[3].identity[:16] for name, row in plan.rows.items()} == IDENTITIES
    imported = ticket_import(problem, ticket="t" * 64, folder="anywhere")
    assert imported.identity[:16] == IMPORT_IDENTITY


IDENTITIES = {
    "full": "9ba4c28504cab89e",
    "ticket": "4f586c54178ea230",
    "random": "fa44567a83cd4ab1",
    "random-per-layer": "86325c5395f80816",
    "reinit": "6947f40c98fbfda0",
    "shuffle": "3e13bbcc6c3a5e83",
    "shuffle-within": "6a19622fd28a7f4c",
    "magnitude": "b24a96084b4b6f42",
}
IMPORT_IDENTITY = "3be79a66793f9dde"


# --- structures ---------------------------------------------------------------------


def test_a_remaining_weight_is_counted_in_the_trained_model():
    assert CLAIM.claimed == (2000 - 512) / 2000
    assert CLAIM.measured(counted()) == 0.725
    assert CLAIM.measured({"sparsity": {"zeros": 0}}) == 1.0, "the full model"
    assert CLAIM.holds(counted())
    assert CLAIM.holds(counted(heads=(4, 3, 1))), "a mask of another seed is of the same size"


@pytest.mark.parametrize(
    "metrics",
    [
        counted(heads=(4, 4, 1)),
        counted(heads=(3, 4, 0)),
        counted(ffns=(1, 1, 1)),
        counted(parameters=1489),
        {"sparsity": {"zeros": 0}},
    ],
)
def test_a_model_that_is_not_as_claimed_is_found_out(metrics):
    """SPEC 5, trap 10."""
    assert not CLAIM.holds(metrics)


def test_a_claim_to_keep_everything_holds_for_the_full_model():
    everything = StructureClaim.of(StructureMask.full((4, 4, 4)), SIZES)
    assert everything.holds({"sparsity": {"zeros": 0}})
    assert everything.holds(counted((4, 4, 4), (1, 1, 1), 2000))


def test_what_each_control_of_a_structure_changes():
    rows = planned(STRUCTURED).rows
    assert tuple(sorted(rows)) == tuple(sorted((*STRUCTURED, "ticket")))
    structures = {name: by_seed[1].inputs.get("structure") for name, by_seed in rows.items()}
    starts = {name: by_seed[1].parameters["start"]["kind"] for name, by_seed in rows.items()}
    assert structures["full"] is None
    for name in ("ticket", "reinit", "shuffle", "shuffle-within"):
        assert structures[name] == TICKET.mask
    random = structures["random"]
    assert random is not None
    assert (random.step.parameters["heads"], random.step.parameters["ffns"]) == (4, 1)
    assert starts == {
        **{"full": "pretrained", "ticket": "pretrained", "random": "pretrained", "reinit": "reinit"},
        **{"shuffle": "shuffled_layers", "shuffle-within": "shuffled_within"},
    }
    for row in rows.values():
        assert "mask" not in row[1].inputs


def test_a_random_ticket_is_not_its_own_control():
    """A ticket that was drawn with seed 0 must not be compared with itself."""
    drawn = random_structure(PROBLEM, heads=4, ffns=1, seed=0)
    controls = {step.inputs["structure"].step.identity for step in planned().rows["random"].values()}
    assert len(controls) == 3
    assert drawn.identity not in controls


@pytest.mark.parametrize(
    ("name", "reason"), [("magnitude", "single weights"), ("random-per-layer", "one FFN")]
)
def test_controls_without_meaning_are_refused_with_the_reason(name, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        planned(("full", name))
    assert caught.value.todo == "choose from full, random, reinit, shuffle, shuffle-within"


def test_a_ticket_smaller_than_any_random_one_says_so():
    mask = StructureMask(((False,) * 4, (True,) * 4, (False,) * 3 + (True,)), (True,) * 3)
    assert planned(("full", "reinit"), StructureClaim.of(mask, SIZES)).rows["reinit"]
    headless = StructureMask(((False,) * 4, (False,) * 4, (False,) * 3 + (True,)), (True,) * 3)
    with pytest.raises(UsageError, match="removes 11 heads, and random ones keep one head"):
        planned(claim=StructureClaim.of(headless, SIZES))


def test_importing_a_structure_names_heads_instead_of_matrices():
    assert IMPORTED.parameters == {"ticket": "t" * 64, "heads_per_layer": [4, 4, 4]}


def judged(ticket_metrics: dict[str, Any], scores: dict[str, list[float]]):
    plan = planned()
    by_step = {
        step.identity: {
            "dev": {"accuracy": scores[name][number], "f1": 0.0},
            **({"sparsity": {"zeros": 0}} if name == "full" else ticket_metrics),
        }
        for name, row in plan.rows.items()
        for number, step in enumerate(row.values())
    }
    return judge(plan, lambda step: by_step[step.identity], fixed_mask=True, criterion=within_points(2))


SCORES = {"full": [80.0, 81.0, 82.0], "ticket": [79.5, 80.5, 81.5], "random": [70.0, 70.0, 71.0]}


def test_the_verdict_shows_remaining_weights():
    found = judged(counted(), SCORES)
    assert found.winning
    assert (found.measure, found.claimed, found.measured) == ("remaining weight", 0.744, 0.725)
    assert "biases" in found.note
    assert [row.measured for row in found.rows] == [1.0, 0.725, 0.725]


def test_no_when_the_trained_models_are_larger_than_claimed():
    found = judged(counted(heads=(4, 4, 1)), {**SCORES, "ticket": [95.0, 95.0, 96.0]})
    assert not found.winning
    assert found.said == "NO: the trained models are not as small as the ticket claims"
