"""The transfer study: whose mask is trained on whose data, and the figures against numbers worked out by hand."""

from __future__ import annotations

import pytest
from tests.studies.made_up import Made, existence, told, transfer

from tombola.errors import RecipeError
from tombola.studies.artefact import Heatmap, Table

NOISE = (-1.0, 0.0, 1.0)
FULL = {"one": 80.0, "two": 60.0}
#: Means of TRANSFER(source, target) at any sparsity up to 50 %, and at 70 %.
LOW = {("one", "one"): 80.5, ("one", "two"): 59.5, ("two", "one"): 70.0, ("two", "two"): 59.2}
HIGH = {("one", "one"): 75.0, ("one", "two"): 59.5, ("two", "one"): 75.0, ("two", "two"): 50.0}
MAGNITUDE = {"one": 40.0, "two": 59.0}


def score(task: str, row: str, sparsity: float, seed: int) -> float:
    if row == "full":
        mean = FULL[task]
    elif row == "magnitude":
        mean = MAGNITUDE[task]
    else:
        source = task if row == "imp" else row
        mean = (HIGH if sparsity == 0.7 else LOW)[(source, task)]
    return mean + NOISE[seed]


KNOWN = Made(score)
NOTHING = Made(lambda *_: None)


def named(study, known, name):
    (found,) = [artefact for artefact in study.artefacts(known) if artefact.name == name]
    return found


def test_a_transferred_ticket_is_the_sources_mask_on_theta0_by_the_targets_recipe():
    study = transfer()
    for seed, step in study.row("one", "two", 0.7).items():
        assert step.inputs["mask"] == study.searches["one"].retrained[0.7][seed].inputs["mask"]
        assert set(step.inputs) == {"mask"}, "no weights of the source travel along, nor its head"
        assert step.parameters["task"]["fingerprint"] == "two"
        assert step.parameters["start"]["kind"] == "pretrained"
        assert step.parameters["start"]["head"] == "fresh"
        assert step.parameters["purpose"] == "retrain"
        assert step.parameters["seed"] == seed


def test_on_its_own_task_it_is_the_very_run_of_the_search():
    study = transfer()
    assert study.row("two", "two", 0.5) == study.searches["two"].retrained[0.5]


def test_the_magnitude_mask_is_one_for_all_targets_and_seeds():
    study = transfer()
    masks = {
        step.inputs["mask"].step
        for target in ("one", "two")
        for step in study.row("magnitude", target, 0.7).values()
    }
    assert len(masks) == 1
    assert masks.pop().inputs == {}, "of θ0, no training"


def test_figure_2a_by_hand():
    figure = named(transfer(), KNOWN, "figure-2a")
    assert isinstance(figure, Heatmap)
    assert figure.row_labels == ("one", "two", "magnitude")
    assert figure.values == ((-5.0, -0.5), (-5.0, -10.0), (-40.0, -1.0))
    # Winning: F ≤ P + σ with σ = 1.
    assert figure.dark == ((False, True), (False, False), (False, True))


def test_figure_2b_counts_the_targets_a_source_is_as_good_for_as_their_own_ticket():
    figure = named(transfer(), KNOWN, "figure-2b")
    assert figure.dark == ((True, True), (True, True), (False, True))
    assert figure.counts == (2, 2, 1)
    assert any("Dark for every target: one, two." in note for note in figure.notes)


def test_figure_5_has_the_values_of_2a_and_the_shading_of_2b():
    figure = named(transfer(), KNOWN, "figure-5")
    assert figure.values == ((0.5, -0.5), (-10.0, pytest.approx(-0.8)), (-40.0, -1.0))
    assert figure.dark == ((True, True), (False, True), (False, False))
    assert figure.counts == (2, 1, 0)


def test_figure_6_takes_each_source_at_its_own_winning_sparsity():
    study = transfer()
    assert study.own_sparsity(KNOWN, "one") == 0.5
    assert study.own_sparsity(KNOWN, "two") == 0.5
    figure = named(study, KNOWN, "figure-6")
    assert figure.row_labels == ("one (50%)", "two (50%)")
    assert figure.values == ((80.5, 59.5), (70.0, 59.2))
    assert figure.dark == ((True, True), (False, True))


def test_a_source_that_never_wins_has_an_empty_row():
    low = Made(
        lambda task, row, at, seed: 1.0 if (task, row) == ("two", "imp") else score(task, row, at, seed)
    )
    figure = named(transfer(), low, "figure-6")
    assert figure.row_labels == ("one (50%)", "two (none)")
    assert figure.values[1] == (None, None)
    assert any("two" in note and "empty" in note for note in figure.notes)


def test_table_7_takes_the_targets_sparsity_and_prints_the_gap():
    table = named(transfer(table_7=["one"]), KNOWN, "table-7")
    assert isinstance(table, Table)
    lines = [[cell.text for cell in row] for row in table.rows]
    assert lines[1] == ["one", "two", "50%", "60.0 ± 1.0", "59.2 ± 1.0", "59.5 ± 1.0", "-0.5"]


def test_the_winning_sparsities_are_asked_for_before_their_transfers_are_planned():
    study = transfer(figure_2=None, figure_5=None, table_7=["one"])
    first = study.plan(NOTHING)
    assert all(told(step)[1] in ("full", "imp") for step in first.graph.wanted)
    follow = study.plan(KNOWN)
    new = {told(step)[:3] for step in follow.graph.wanted} - {told(step)[:3] for step in first.graph.wanted}
    assert new == {("two", "one", 0.5), ("one", "two", 0.5)}
    assert len(follow.graph.wanted) - len(first.graph.wanted) <= first.later


def test_targets_outside_the_sources_still_get_their_own_ticket_to_compare_with():
    study = transfer(sources=["one"], targets=["two"])
    rows = {told(step)[:3] for step in study.plan(NOTHING).graph.wanted}
    assert ("two", "imp", 0.7) in rows
    assert named(study, KNOWN, "figure-2b").dark == ((True,), (True,))


def test_existence_and_transfer_share_their_trainings():
    one, other = existence().plan(NOTHING).graph, transfer().plan(NOTHING).graph

    def count(graph):
        return sum(step.kind == "train" for step in graph.steps)

    # existence: per task and seed 1 dense, 2 IMP rounds (30, 60 %), 3 retrainings.
    assert count(one) == 2 * 3 * 6
    # transfer beside them: 2 off-diagonal pairs and 2 magnitude cells at each of two sparsities.
    assert count(one + other) == count(one) + 3 * (2 + 2) * 2
    assert count(one) + count(other) > count(one + other)


def test_every_run_is_listed_once_and_none_forgotten():
    study = transfer(table_7=["one"])
    listed = [row[5].runs[0] for row in named(study, KNOWN, "runs").rows]
    assert len(listed) == len(set(listed))
    planned = {step.identity for step in study.plan(KNOWN).graph.wanted}
    # The grid below the fixed sparsities only decides what wins; existence lists it.
    assert set(listed) <= planned


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sources": ["tow"]}, "'tow' is no task"),
        ({"table_7": ["three"]}, "'three' is no task"),
        ({"rewind": 0.1}, "do not move to another task"),
        ({"figure_2": 70}, "not a share"),
        ({"criterion": "best"}, "there is no criterion"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        transfer(**settings)
