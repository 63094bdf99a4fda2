"""Plans of the methods: which trainings, masks and starts they ask for, without running any."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.problems import made_up_problem

from tombola.errors import RecipeError, UsageError
from tombola.finding.methods import METHODS, get_method
from tombola.finding.search import plan_search
from tombola.finding.settings import SearchSettings
from tombola.plan.graph import Graph
from tombola.plan.trainings import dense_training


def plan(method: str, **settings: object):
    return plan_search(made_up_problem(), SearchSettings(**settings), get_method(method))  # type: ignore[arg-type]


def chain(candidate):
    """The masks of an IMP run from the last back to the first, with the training each was cut from."""
    mask = candidate.mask
    while mask is not None:
        yield mask.step, mask.step.inputs["weights"].step
        mask = mask.step.inputs.get("within")


def test_imp_prunes_ten_percent_of_the_original_weights_a_round():
    search = plan("imp", sparsities=(0.3,))
    rounds = list(chain(search.candidates[0.3][0]))
    assert [mask.parameters["zeros"] for mask, _ in rounds] == [30, 20, 10]


def test_every_imp_round_starts_again_from_theta0_with_the_mask_so_far():
    search = plan("imp", sparsities=(0.3,))
    rounds = list(chain(search.candidates[0.3][0]))
    for (mask, trained), (before, _) in pairwise(rounds):
        assert mask.inputs["within"].step == before, "masks are nested"
        assert trained.inputs["mask"].step == before
        assert trained.parameters["start"] == {
            "kind": "pretrained",
            "seed": None,
            "head": "fresh",
            "first_step": 0,
        }
        assert trained.parameters["purpose"] == "search"


def test_the_first_round_is_the_dense_training_of_the_seed():
    search = plan("imp", sparsities=(0.3,), seeds=(4,))
    assert list(chain(search.candidates[0.3][4]))[-1][1] == dense_training(made_up_problem(), 4)
    assert search.dense[4] == dense_training(made_up_problem(), 4)


def test_sparsities_of_one_schedule_share_their_rounds():
    several = plan("imp", sparsities=(0.2, 0.4))
    alone = plan("imp", sparsities=(0.4,))
    kinds = [step.kind for step in several.graph.steps]
    assert kinds.count("train") == [step.kind for step in alone.graph.steps].count("train") + 1
    assert kinds.count("prune") == 4


def test_a_ticket_is_evaluated_with_another_order_and_head_than_it_was_found_with():
    search = plan("imp", sparsities=(0.3,))
    retrained = search.retrained[0.3][0]
    assert retrained.parameters["purpose"] == "retrain"
    assert retrained.inputs["mask"] == search.candidates[0.3][0].mask


def test_each_seed_has_a_whole_search_of_its_own():
    search = plan("imp", sparsities=(0.3,), seeds=(0, 1))
    masks = {search.candidates[0.3][seed].mask.step.identity for seed in (0, 1)}
    assert len(masks) == 2
    assert len([step for step in search.graph.steps if step.kind == "train"]) == 2 * (3 + 1)


def test_rewinding_to_a_share_takes_state_from_the_dense_training_of_that_step():
    search = plan("imp", sparsities=(0.3,), rewind=0.5)
    dense = search.dense[0]
    for _, trained in list(chain(search.candidates[0.3][0]))[:-1]:
        assert trained.inputs["start"] == dense.out("state-3.safetensors"), "half of 6 steps"
        assert trained.parameters["start"]["first_step"] == 3
        assert trained.cost == 3
    assert dense == dense_training(made_up_problem(), 0), "snapshots never change what is trained"


def test_standard_pruning_trains_on_from_the_surviving_weights():
    search = plan("imp", sparsities=(0.3,), rewind="standard")
    rounds = list(chain(search.candidates[0.3][0]))
    assert rounds[0][1].inputs["start"] == rounds[1][1].out("weights.safetensors")
    assert rounds[0][1].parameters["start"]["head"] == "kept"
    ticket = search.candidates[0.3][0]
    assert ticket.start.ref == rounds[0][1].out("weights.safetensors")
    assert ticket.start.head == "fresh", "a ticket carries no task head"


def test_one_shot_needs_one_training_and_geometric_a_share_of_the_rest():
    (only,) = chain(plan("imp", sparsities=(0.3,), schedule="one_shot").candidates[0.3][0])
    assert only[0].parameters["zeros"] == 30
    rounds = list(chain(plan("imp", sparsities=(0.36,), schedule="geometric", step=0.2).candidates[0.36][0]))
    assert [mask.parameters["zeros"] for mask, _ in rounds] == [36, 20]


def test_magnitude_trains_nothing_and_is_the_same_for_all_seeds():
    search = plan("magnitude", sparsities=(0.5,), seeds=(0, 1))
    masks = {search.candidates[0.5][seed].mask.step for seed in (0, 1)}
    (mask,) = masks
    assert mask.inputs == {}
    assert mask.parameters["zeros"] == 50


def test_random_draws_a_mask_of_its_own_for_every_seed():
    search = plan("random", sparsities=(0.5,), seeds=(0, 1))
    masks = [search.candidates[0.5][seed].mask.step for seed in (0, 1)]
    assert masks[0] != masks[1]
    assert [mask.parameters["zeros"] for mask in masks] == [50, 50]


def test_methods_share_dense_trainings():
    graph = plan("imp", seeds=(0, 1)).graph + plan("random", seeds=(0, 1)).graph
    assert isinstance(graph, Graph)
    unmasked = [step for step in graph.steps if step.kind == "train" and "mask" not in step.inputs]
    assert len(unmasked) == 2


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"sparsities": (0.0,)}, "0.7 for 70 %"),
        ({"sparsities": (1.0,)}, "0.7 for 70 %"),
        ({"sparsities": ()}, "at least one"),
        ({"seeds": (1, 1)}, "different"),
        ({"schedule": "linaer"}, "did you mean 'linear'"),
        ({"step": 0.0}, "step"),
        ({"rewind": "begin"}, "standard"),
        ({"rewind": 1.0}, "share"),
        ({"scope": "both"}, "scope"),
    ],
)
def test_settings_that_cannot_be_meant_say_what_to_do(settings, word):
    with pytest.raises(RecipeError) as caught:
        SearchSettings(**settings)
    assert word in str(caught.value)


def test_method_names_aliases_and_typos():
    assert get_method("IMP").name == "imp"
    assert get_method("one_shot").name == "magnitude"
    with pytest.raises(UsageError, match="no method 'impp'"):
        get_method("impp")
    assert all(callable(method.plan) for method in METHODS.values())


def test_the_documented_method_is_what_one_shot_imp_plans():
    """docs/add-a-method.md: its code runs, and gives the very steps of the shipped method."""
    import re
    from pathlib import Path

    page = (Path(__file__).parent.parent.parent / "docs" / "add-a-method.md").read_text()
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S).group(1), names)  # type: ignore[union-attr]
    settings = SearchSettings(sparsities=(0.3,), schedule="one_shot")
    written = names["plan"](made_up_problem(), settings, 0)
    assert written[0.3].mask == plan("imp", sparsities=(0.3,), schedule="one_shot").candidates[0.3][0].mask
    assert written[0.3].start == plan("imp", sparsities=(0.3,), schedule="one_shot").candidates[0.3][0].start


def test_a_training_that_may_stop_early_has_no_rewinding_point():
    problem = made_up_problem(early_stopping=True)
    with pytest.raises(RecipeError, match="may never reach its rewinding point"):
        plan_search(problem, SearchSettings(rewind=0.5), get_method("imp"))
