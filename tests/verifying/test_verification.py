"""Verifying: which trainings are planned, and how their scores become a yes or a no."""

from __future__ import annotations

import pytest
from tests.problems import made_up_problem

from tombola.errors import UsageError
from tombola.plan.trainings import Candidate, Start, dense_training, random_mask
from tombola.verifying.claim import WeightClaim
from tombola.verifying.controls import CONTROLS
from tombola.verifying.criteria import match_or_exceed, within_points
from tombola.verifying.verification import judge, plan_verification

PROBLEM = made_up_problem()
TICKET = Candidate(random_mask(PROBLEM, zeros=50, seed=77).out("mask.safetensors"), Start())


def planned(against=("full", "random"), seeds=(0, 1, 2)):
    return plan_verification(
        PROBLEM, dict.fromkeys(seeds, TICKET), WeightClaim(50, PROBLEM.model.prunable), against
    )


def metrics(plan, scores, zeros=50):
    """Made-up metrics: ``scores[row]`` lists the accuracy of every seed."""
    by_step = {
        step.identity: {
            "dev": {"accuracy": scores[name][number], "f1": 0.0},
            "sparsity": {"zeros": 0 if name == "full" else zeros},
        }
        for name, by_seed in plan.rows.items()
        for number, step in enumerate(by_seed.values())
    }
    return lambda step: by_step[step.identity]


def test_full_model_is_the_dense_training_of_each_seed():
    plan = planned()
    assert plan.rows["full"] == {seed: dense_training(PROBLEM, seed) for seed in (0, 1, 2)}


def test_the_controls_are_evaluated_the_way_the_ticket_is():
    plan = planned(("full", *CONTROLS))
    ticket = plan.rows["ticket"][1].parameters
    for name in CONTROLS:
        control = plan.rows[name][1].parameters
        for key in ("recipe", "numerics", "seed", "purpose", "task", "model"):
            assert control[key] == ticket[key], (name, key)


def test_what_each_control_changes():
    rows = planned(("full", *CONTROLS)).rows
    masks = {name: by_seed[1].inputs["mask"] for name, by_seed in rows.items() if name != "full"}
    starts = {name: by_seed[1].parameters["start"] for name, by_seed in rows.items()}
    for name in ("reinit", "shuffle", "shuffle-within"):
        assert masks[name] == masks["ticket"]
        assert starts[name]["seed"] == 1
    assert starts["reinit"]["kind"] == "reinit"
    assert starts["shuffle"]["kind"] == "shuffled_layers"
    assert starts["shuffle-within"]["kind"] == "shuffled_within"
    assert masks["random"].step.parameters["zeros"] == 50
    assert masks["random-per-layer"].step.inputs["like"] == masks["ticket"]
    assert masks["magnitude"].step.kind == "prune"
    assert starts["random"] == starts["magnitude"] == starts["ticket"]


def test_random_controls_differ_between_seeds():
    rows = planned().rows["random"]
    assert len({step.inputs["mask"].step.identity for step in rows.values()}) == 3


def test_an_unknown_control_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        planned(("full", "reinitt"))
    assert "did you mean 'reinit'" in str(caught.value)


def test_yes_when_the_criterion_holds_and_the_sparsity_is_real():
    plan = planned()
    scores = {"full": [80, 81, 82], "ticket": [79.5, 80.5, 81.5], "random": [70, 70, 71]}
    found = judge(plan, metrics(plan, scores), fixed_mask=True, criterion=within_points(2))
    assert found.winning
    assert found.said.startswith("YES")
    assert (found.measure, found.claimed, found.measured) == ("sparsity", 0.5, 0.5)
    random = found.row("random").against_ticket
    assert random is not None
    assert random.difference.mean == pytest.approx((9.5 + 10.5 + 10.5) / 3)
    assert len(found.decisions) == 4, "all four criteria are reported"


def test_no_when_the_criterion_fails():
    plan = planned()
    scores = {"full": [80, 81, 82], "ticket": [79.5, 80.5, 81.5], "random": [70, 70, 71]}
    found = judge(plan, metrics(plan, scores), fixed_mask=True, criterion=match_or_exceed())
    assert not found.winning
    assert found.said.startswith("NO")


def test_no_when_the_weights_are_less_sparse_than_claimed():
    """Trap 10: the sparsity is counted in the trained weights."""
    plan = planned()
    scores = {"full": [80, 81, 82], "ticket": [90, 90, 91], "random": [70, 70, 71]}
    found = judge(plan, metrics(plan, scores, zeros=49), fixed_mask=True, criterion=within_points(2))
    assert not found.winning
    assert "not as sparse" in found.said


def test_a_degenerate_task_is_flagged():
    plan = planned()
    scores = {"full": [50, 49, 50], "ticket": [50, 50, 50], "random": [50, 50, 50]}
    found = judge(plan, metrics(plan, scores), fixed_mask=True, criterion=within_points(2))
    assert found.degenerate
    assert "degenerate" in found.said


def test_one_seed_cannot_be_judged_by_a_standard_deviation():
    plan = planned(seeds=(0,))
    scores = {"full": [80], "ticket": [90], "random": [70]}
    found = judge(plan, metrics(plan, scores), fixed_mask=True)
    assert not found.winning
    assert "no standard deviation" in found.said


def test_what_early_stopping_did_not_see_is_told_apart():
    """SPEC 5, trap 16: the share that an epoch was chosen on is part of dev."""
    plan = planned()
    plain = metrics(plan, {"full": [80, 81, 82], "ticket": [79.5, 80.5, 81.5], "random": [70, 70, 71]})
    assert judge(plan, plain, fixed_mask=True).row("ticket").rest is None

    def stopped(step):
        found = plain(step)
        return {**found, "dev_rest": {"accuracy": found["dev"]["accuracy"] - 3, "f1": 0.0}}

    found = judge(plan, stopped, fixed_mask=True)
    rest = found.row("ticket").rest
    assert rest is not None
    assert (rest.mean, rest.n) == (77.5, 3)
    assert found.row("ticket").summaries["accuracy"].mean == 80.5
