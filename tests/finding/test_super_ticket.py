"""Super tickets as plans and choices: exact sizes, shared dense runs, levels chosen on a share of dev."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.problems import made_up_problem

from tombola.errors import RecipeError, UnsupportedModel, UsageError
from tombola.files import read_json, write_tensors
from tombola.finding.levels import Budget, at_levels, hopeless, read_budget, within
from tombola.finding.methods import get_method
from tombola.finding.search import plan_search
from tombola.finding.settings import SearchSettings
from tombola.finding.super_outcome import outcome_of
from tombola.finding.super_ticket import parts_removed, remaining_weight, tickets
from tombola.masks.levels import LEVELS
from tombola.masks.structure_sizes import StructureSizes
from tombola.plan import structure_steps
from tombola.plan.workplace import Workplace
from tombola.tasks.splitting import selection_share

BERT_BASE = StructureSizes(768, 64, 3072, (12,) * 12, parameters=109_482_240, encoder=85_054_464)


def problem():
    whole = made_up_problem()
    return replace(whole, model=replace(whole.model, sizes=BERT_BASE))


def plan(levels=LEVELS, seeds=(0, 1), **settings):
    return plan_search(
        problem(), SearchSettings(sparsities=levels, seeds=seeds, **settings), get_method("super")
    )


def test_a_level_removes_the_papers_numbers_of_heads_and_ffns():
    counts = [parts_removed(problem(), level, "floor") for level in LEVELS]
    assert [heads for heads, _ in counts] == [14, 28, 43, 57, 72, 86, 100, 115]
    assert [ffns for _, ffns in counts] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert [parts_removed(problem(), level, "authors")[1] for level in LEVELS] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_remaining_weight_is_the_printed_one():
    assert round(remaining_weight(problem(), 0.1, "floor"), 3) == 0.932
    assert remaining_weight(problem(), 0.0, "floor") == 1.0


def test_every_seed_has_its_own_dense_run_scores_structures_and_choice():
    search = plan()
    for seed in (0, 1):
        for level in LEVELS:
            made = search.candidates[level][seed].mask.step
            scores = made.inputs["importance"].step
            assert scores.kind == "importance"
            assert scores.inputs["weights"].step == search.dense[seed]
            retrained = search.retrained[level][seed]
            assert retrained.inputs["structure"].step == made
            assert retrained.parameters["start"]["kind"] == "pretrained"
            assert retrained.parameters["purpose"] == "retrain"
    assert search.choices[0] != search.choices[1]
    assert set(search.choices[0].inputs) == {"0", *(f"{level:g}" for level in LEVELS)}


def test_one_pass_of_importance_serves_all_levels_and_both_kinds():
    found = problem()
    settings = SearchSettings(sparsities=LEVELS)
    steps = {
        candidate.mask.step.inputs["importance"].step.identity
        for kind in ("winning", "losing")
        for candidate in tickets(found, settings, 0, kind).values()
    }
    assert len(steps) == 1


def test_random_tickets_are_of_the_same_size_and_need_no_scores():
    made = tickets(problem(), SearchSettings(sparsities=(0.3,)), 0, "random")[0.3].mask.step
    assert (made.parameters["heads"], made.parameters["ffns"]) == (43, 3)
    assert not made.inputs


def test_a_model_without_heads_is_refused():
    with pytest.raises(UnsupportedModel, match="no heads and FFNs"):
        plan_search(made_up_problem(), SearchSettings(sparsities=(0.3,)), get_method("super"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ffn_rule": "ceil"}, "ffn_rule"),
        ({"granularity": "tokens"}, "did you mean 'token'"),
        ({"select_share": 0.0}, "share of 0.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(RecipeError, match=message):
        SearchSettings(**settings)


def test_settings_of_other_methods_are_refused():
    with pytest.raises(UsageError, match="use --method imp"):
        get_method("super").refuse_ignored(SearchSettings(rewind=0.05))
    with pytest.raises(UsageError, match="use --method super"):
        get_method("imp").refuse_ignored(SearchSettings(include_full=True))


def test_levels_and_sparsities_are_not_mixed_up():
    assert get_method("super").grid(None, None) == LEVELS
    assert get_method("imp").grid(None, None) == (0.5,)
    with pytest.raises(UsageError, match="does not read sparsity"):
        get_method("super").grid((0.5,), None)
    with pytest.raises(UsageError, match="does not read levels"):
        get_method("imp").grid(None, (0.5,))


# -- the choice -------------------------------------------------------------------------------------------------


class Targets:
    def __init__(self, targets):
        self.targets = np.asarray(targets)


def chosen(tmp_path, monkeypatch, right: dict[str, list[int]], count=40, **changes):
    """Run the step: at every level exactly the examples named in ``right`` are answered rightly."""
    targets = [0, 1] * (count // 2)
    monkeypatch.setattr(structure_steps, "task_data", lambda *_: None)
    monkeypatch.setattr(structure_steps, "encoded_split", lambda *_: Targets(targets))
    inputs = {}
    for level, rows in right.items():
        answers = [target if row in rows else 1 - target for row, target in enumerate(targets)]
        logits = torch.nn.functional.one_hot(torch.tensor(answers), 2).float()
        inputs[level] = tmp_path / f"{level}.safetensors"
        write_tensors(inputs[level], {"dev": logits})
    parameters = {
        "task": {"fingerprint": "d", "metrics": ["accuracy"]},
        "levels": {level: 1.0 - float(level) for level in right},
        "share": 0.25,
        "seed": 0,
        "include_full": False,
        **changes,
    }
    work = Workplace(tmp_path, tmp_path, frozenset())
    structure_steps.choose_level(parameters, inputs, {"task": {}, "max_length": 8}, work)
    return read_json(tmp_path / "choice.json")


def test_the_level_is_chosen_on_the_share_alone(tmp_path, monkeypatch):
    share, rest = selection_share(40, 0.25, 0)
    right = {"0": share, "0.1": share[:5] + rest, "0.2": share[:8]}
    found = chosen(tmp_path, monkeypatch, right)
    # 0.1 is far better on the whole development set, but not on the examples that choose.
    assert found["chosen"] == 0.2
    assert found["levels"]["0.2"]["rest"]["accuracy"] == 0.0
    assert found["levels"]["0.1"]["rest"]["accuracy"] == 100.0
    assert found["levels"]["0.1"]["dev"]["accuracy"] == pytest.approx(100 * 35 / 40)
    assert found["examples"] == [10, 30]


def test_ties_go_to_fewer_weights(tmp_path, monkeypatch):
    share, rest = selection_share(40, 0.25, 0)
    found = chosen(
        tmp_path, monkeypatch, {"0": share, "0.1": share[:7] + rest, "0.3": share[3:], "0.2": share[:7]}
    )
    assert found["chosen"] == 0.3


@pytest.mark.parametrize(("include_full", "level"), [(False, 0.1), (True, 0.0)])
def test_the_full_model_wins_only_where_it_may(tmp_path, monkeypatch, include_full, level):
    share, _ = selection_share(40, 0.25, 0)
    found = chosen(tmp_path, monkeypatch, {"0": share, "0.1": share[:3]}, include_full=include_full)
    assert found["chosen"] == level


# -- outcome, budgets, hopeless levels --------------------------------------------------------------------------


def outcome(scores: dict[float, list[float]], levels, chosen_levels):
    """``scores[level][seed]``: the same on every part of dev, so that only levels matter."""
    search = plan(levels, tuple(range(len(chosen_levels))))
    found = {
        search.choices[seed].identity: {
            "chosen": level,
            "levels": {
                f"{each:g}": {
                    part: {"accuracy": scores[each][seed], "f1": scores[each][seed] + 2}
                    for part in ("share", "rest", "dev")
                }
                for each in (0.0, *levels)
            },
        }
        for seed, level in enumerate(chosen_levels)
    }
    return outcome_of(search, lambda ref: json.loads(json.dumps(found[ref.step.identity])))


def test_every_seed_is_scored_at_its_own_level():
    found = outcome({0.0: [80, 82], 0.1: [81, 90], 0.2: [70, 84]}, (0.1, 0.2), (0.1, 0.2))
    assert found.ticket("dev", "accuracy") == [81, 84]
    assert found.full("dev", "accuracy") == [80, 82]
    results = found.results()
    assert results["levels"] == [0.1, 0.2]
    assert results["scores"]["ticket"]["f1"] == [83, 86]
    assert results["runs"]["ticket"] == [
        found.search.retrained[0.1][0].identity,
        found.search.retrained[0.2][1].identity,
    ]


def test_the_curve_starts_at_the_full_model_and_means_over_metrics_and_seeds():
    found = outcome({0.0: [80, 82], 0.1: [81, 90]}, (0.1,), (0.1, 0.1))
    full, first = found.curve()
    assert (full["remaining"], full["mean"]) == (1.0, 82.0)
    assert (first["heads_removed"], first["ffns_removed"], first["mean"]) == (14, 1, 86.5)


@pytest.mark.parametrize(
    ("means", "expected"),
    [((80, 81, 70, 69), True), ((80, 81, 70, 79), False), ((80, 60), False), ((80, 74.9, 74.9), True)],
)
def test_two_levels_in_a_row_far_below_the_best_are_hopeless(means, expected):
    levels = tuple(LEVELS[: len(means) - 1])
    scores = {level: [mean] for level, mean in zip((0.0, *levels), means, strict=True)}
    assert hopeless(outcome(scores, levels, (levels[0],))) is expected


def test_a_search_over_fewer_levels_shares_its_trainings():
    whole, part = plan(), at_levels(plan(), LEVELS[:3])
    assert part.retrained[0.2] == whole.retrained[0.2]
    assert part.choices[0] != whole.choices[0]


def test_a_budget_leaves_the_levels_that_fit():
    search = plan()
    fitting = within(
        search, Budget("params", 0.7), lambda level: remaining_weight(search.problem, level, "floor")
    )
    assert fitting.settings.sparsities == (0.5, 0.6, 0.7, 0.8)
    with pytest.raises(UsageError, match=r"no level fits params <= 0\.1"):
        within(search, Budget("params", 0.1), lambda level: 1 - level)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("params<=0.5", Budget("params", 0.5)),
        (" latency <= 70% ", Budget("latency", 0.7, 1, 128)),
        ("latency@8x64<=0.7", Budget("latency", 0.7, 8, 64)),
    ],
)
def test_budgets_are_read_as_they_are_typed(text, expected):
    assert read_budget(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "latency",
        "params<=70",
        "params<=0",
        "speed<=0.5",
        "params@8x8<=0.5",
        "latency@0x8<=0.5",
        "params<=.",
    ],
)
def test_what_is_no_budget_is_refused_with_examples(text):
    with pytest.raises(UsageError) as caught:
        read_budget(text)
    assert "params<=0.5" in f"{caught.value}"
