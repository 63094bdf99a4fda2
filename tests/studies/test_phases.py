"""The phases study: what it plans, and its figures and tables against numbers worked out by hand."""

from __future__ import annotations

import pytest
from tests.studies.made_up import SuperMade, phases, told_super

from tombola.errors import RecipeError
from tombola.studies.artefact import Curves, Region, Table

#: Seed-wise deviations with a standard deviation of exactly 1.
NOISE = (-1.0, 0.0, 1.0)
#: Winning tickets are best at 20 %, and no better than random ones at 80 %.
MEANS = {
    "winning": {0.2: 82.0, 0.5: 79.0, 0.8: 60.0},
    "random": {0.2: 78.0, 0.5: 70.0, 0.8: 60.0},
    "losing": {0.2: 60.0, 0.5: 55.0, 0.8: 50.0},
}


def score(task: str, row: str, level: float, seed: int) -> float:
    return (80.0 if row == "full" else MEANS[row][level]) + NOISE[seed]


KNOWN = SuperMade(score)
NOTHING = SuperMade(lambda *_: None)


def named(study, known, name):
    (found,) = [artefact for artefact in study.artefacts(known) if artefact.name == name]
    return found


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def trainings(graph) -> list:
    return [step for step in graph.steps if step.kind == "train"]


def test_every_task_and_seed_is_a_whole_search_of_all_kinds():
    plan = phases().plan(NOTHING)
    assert plan.later == 0
    found = {told_super(step) for step in trainings(plan.graph)}
    kinds = [("full", 0.0), *((kind, level) for kind in MEANS for level in (0.2, 0.5, 0.8))]
    assert found == {(task, *row, seed) for task in ("one", "two") for row in kinds for seed in range(3)}
    choices = [step for step in plan.graph.steps if step.kind == "choose_level"]
    assert len(choices) == 2 * 3


def test_tickets_are_made_from_their_own_seeds_full_model_and_drawn_apart():
    study = phases(tasks=["one"])
    (found,) = [grid.found(NOTHING) for grid in study.searches.values()]
    for seed in range(3):
        winning, random, losing = (
            found.rows[kind][0.5][seed].inputs["structure"].step for kind in ("winning", "random", "losing")
        )
        for made, kept in ((winning, "winning"), (losing, "losing")):
            assert made.parameters["kept"] == kept
            trained = made.inputs["importance"].step.inputs["weights"].step
            assert trained == found.search.dense[seed]
        sizes = {(step.parameters["heads"], step.parameters["ffns"]) for step in (winning, random, losing)}
        assert sizes == {(36, 3)}, "half of 72 heads and of 6 FFNs"
    drawn = {found.rows["random"][0.5][seed].inputs["structure"].step.identity for seed in range(3)}
    assert len(drawn) == 3


def test_a_kind_that_is_not_asked_for_is_not_trained():
    graph = phases(kinds=["winning"]).plan(NOTHING).graph
    assert {told_super(step)[1] for step in trainings(graph)} == {"full", "winning"}


def test_subsets_are_searches_of_their_own_on_less_data():
    study = phases(tasks=["one"], subsets=["10%", "100%", "50%"])
    assert list(study.searches) == [("one", 1.0), ("one", 0.5), ("one", 0.1)]
    graph = study.plan(NOTHING).graph
    assert {told_super(step)[0] for step in trainings(graph)} == {"one", "one 0.5", "one 0.1"}


def test_subsets_of_some_tasks_leave_the_others_whole():
    study = phases(subsets=["100%", "50%"], subset_tasks=["two"])
    assert list(study.searches) == [("one", 1.0), ("two", 1.0), ("two", 0.5)]
    assert [artefact.name for artefact in study.artefacts(KNOWN) if "figure-5" in artefact.name] == [
        "figure-5-two"
    ]


def test_figure_4_by_hand():
    figure = named(phases(), KNOWN, "figure-4")
    assert isinstance(figure, Curves)
    assert figure.x_falls
    one, two = figure.panels
    assert (one.title, one.y_label, one.level) == ("one", "accuracy", (80.0, "full model"))
    # 14 heads of 400 weights and 1 FFN of 4,000 are 9.6 % of 100,000; then 36 and 3, 57 and 4.
    x = (1.0, 0.904, 0.736, 0.612)
    for curve, kind in zip(one.curves, MEANS, strict=True):
        assert curve.label == f"{kind} tickets"
        assert curve.x == pytest.approx(x)
        assert curve.mean == (80.0, *MEANS[kind].values())
        assert curve.std == (1.0,) * 4
    # Its score is the mean of two metrics, the second two points above the first.
    assert two.y_label == "mean of accuracy and f1"
    assert two.curves[0].mean == (81.0, 83.0, 80.0, 61.0)
    labels = [(region.label, region.low, region.high) for region in one.regions]
    assert labels == [
        ("I", pytest.approx(0.904), 1.0),
        ("II", pytest.approx(0.612), pytest.approx(0.904)),
        ("III", None, pytest.approx(0.612)),
    ]


def test_without_a_gain_the_shades_begin_with_phase_two():
    low = SuperMade(lambda task, row, level, seed: 90.0 if row == "full" else score(task, row, level, seed))
    panel = named(phases(tasks=["one"]), low, "figure-4").panels[0]
    assert panel.regions[0] == Region("II", pytest.approx(0.612), 1.0)


def test_without_random_tickets_no_phase_is_shaded():
    panel = named(phases(tasks=["one"], kinds=["winning", "losing"]), KNOWN, "figure-4").panels[0]
    assert panel.regions == ()


def test_each_metric_has_a_panel_where_there_are_several():
    panels = named(phases(), KNOWN, "figure-4-metrics").panels
    assert [panel.title for panel in panels] == ["two: accuracy", "two: f1"]
    assert panels[1].curves[0].mean == (82.0, 84.0, 81.0, 62.0)
    names = [artefact.name for artefact in phases(tasks=["one"]).artefacts(KNOWN)]
    assert "figure-4-metrics" not in names


def test_bias_and_variance_are_read_of_steps_over_all_seeds():
    study = phases(tasks=["one"])
    steps = [step for step in study.plan(NOTHING).graph.steps if step.kind == "decompose"]
    assert len(steps) == 1 + 3 * 3, "the full model once, every kind at every level"
    assert all(set(step.inputs) == {"0", "1", "2"} for step in steps)
    (curve, *_) = named(study, KNOWN, "figure-1-bias").panels[0].curves
    assert curve.mean == pytest.approx((0.4, 0.6, 0.9, 1.2))
    assert named(study, KNOWN, "figure-1-variance").panels[0].curves[0].mean == (0.1,) * 4


@pytest.mark.parametrize("settings", [{"seeds": 1}, {"bias_and_variance": False}])
def test_one_seed_has_no_variance_and_nobody_need_ask_for_it(settings):
    study = phases(**settings)
    assert all(step.kind != "decompose" for step in study.plan(NOTHING).graph.steps)
    known = SuperMade(lambda *row: score(*row))
    assert not [artefact for artefact in study.artefacts(known) if artefact.name.startswith("figure-1")]


def test_the_phase_table_by_hand():
    (line, _) = texts(named(phases(), KNOWN, "phases"))
    assert line[:6] == ["one", "100%", "80.0 ± 1.0", "20%", "90.4%", "82.0 ± 1.0"]
    assert line[6:8] == ["+2.0", "[+2.0, +2.0]"], "the noise is the seed's, so it cancels in the differences"
    assert line[9:] == ["80%", "61.2%"]


def test_the_curve_table_by_hand():
    lines = texts(named(phases(), KNOWN, "curves"))
    assert lines[0] == [
        *("one", "100%", "accuracy", "0%", "0", "0", "100.0%", "100.0%", "80.0 ± 1.0", "–", "–", "3", "–")
    ]
    # Of the encoder's 60,000 weights 9,600 are gone.
    assert lines[1] == [
        *("one", "100%", "accuracy", "20%", "14", "1", "90.4%", "84.0%"),
        *("82.0 ± 1.0", "78.0 ± 1.0", "60.0 ± 1.0", "3", "I"),
    ]
    assert [line[-1] for line in lines[:4]] == ["–", "I", "II", "III"]
    assert {line[2] for line in lines if line[0] == "two"} == {"mean", "accuracy", "f1"}


def test_every_number_names_its_runs():
    study = phases(tasks=["one"])
    (found,) = [grid.found(KNOWN) for grid in study.searches.values()]
    row = named(study, KNOWN, "curves").rows[1]
    assert row[9].runs == tuple(step.identity for step in found.rows["random"][0.2].values())


def test_comparisons_are_paired_by_seed():
    lines = texts(named(phases(tasks=["one"]), KNOWN, "comparisons"))
    assert [line[3] for line in lines[:3]] == ["full model", "random tickets", "losing tickets"]
    assert [line[6] for line in lines[:3]] == ["+2.0", "+4.0", "+22.0"]


def test_a_missing_seed_gives_no_number_and_no_borders():
    without = SuperMade(
        lambda task, row, level, seed: (
            None if (task, row, level, seed) == ("one", "winning", 0.5, 2) else score(task, row, level, seed)
        )
    )
    study = phases()
    panel = named(study, without, "figure-4").panels[0]
    assert len(panel.curves[0].x) == 3
    assert panel.regions == ()
    line, other = texts(named(study, without, "phases"))
    assert line[3:] == ["–"] * 8
    assert other[3] == "20%", "the other task does not wait for it"


def test_every_training_is_listed_once():
    study = phases(subsets=["100%", "50%"])
    known = SuperMade(lambda task, *row: score(task, *row))
    listed = [row[5].runs[0] for row in named(study, known, "runs").rows]
    assert len(listed) == len(set(listed))
    assert set(listed) == {step.identity for step in trainings(study.plan(known).graph)}


def test_weights_stay_only_if_asked_for():
    assert phases().plan(NOTHING).graph.outputs == ()
    kept = phases(keep=["weights"]).plan(NOTHING).graph
    assert {ref.step for ref in kept.outputs} == set(trainings(kept))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kinds": ["random"]}, "give winning"),
        ({"kinds": ["winning", "winning"]}, "each once"),
        ({"kinds": ["winning", "best"]}, "kinds"),
        ({"subsets": []}, "at least one"),
        ({"subsets": ["50%", "0.5"]}, "must be different"),
        ({"subsets": ["150%"]}, "leaves everything or nothing"),
        ({"subset_tasks": ["onee"]}, "did you mean 'one'"),
        ({"levels": ["0%"]}, "leaves everything or nothing"),
        ({"levels": [80]}, "not a share"),
        ({"sparsities": [0.5]}, "does not read sparsities"),
        ({"rewind": 0.1}, "does not read rewind"),
        ({"method": "imp"}, "has no levels"),
        ({"ffn_rule": "ceil"}, "ffn_rule cannot be 'ceil'"),
        ({"granularity": "word"}, "granularity cannot be 'word'"),
        ({"select_share": 1.0}, "cannot be chosen on a share"),
        ({"select_seed": 3}, "the rest would not be unbiased"),
        ({"training": {"stop_share": 0.2}}, "the rest would not be unbiased"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        phases(**settings)
