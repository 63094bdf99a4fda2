"""The existence study: what it plans when, and its tables against numbers worked out by hand."""

from __future__ import annotations

import statistics

import pytest
from tests.studies.made_up import Made, existence, told

from tombola.errors import RecipeError
from tombola.plan.step import Step
from tombola.studies.artefact import Curves, Table
from tombola.verifying.criteria import match_or_exceed, within_one_std

#: Seed-wise deviations with a standard deviation of exactly 1.
NOISE = (-1.0, 0.0, 1.0)
#: Means: tickets of `one` win up to 50 % by one std (79.5 + 1 ≥ 80) and up to 30 % by match or exceed (80.5 ≥ 80).
MEANS = {"full": 80.0, 0.3: 80.5, 0.5: 79.5, 0.7: 60.0, "random": 55.0, "reinit": 51.0, "shuffle": 52.0}


def score(task: str, row: str, sparsity: float, seed: int) -> float:
    mean = MEANS["full"] if row == "full" else MEANS[sparsity] if row == "imp" else MEANS[row]
    if task == "two" and row == "imp":
        mean = 10.0
    return mean + NOISE[seed]


KNOWN = Made(score)
NOTHING = Made(lambda *_: None)


def named(study, known, name):
    (found,) = [artefact for artefact in study.artefacts(known) if artefact.name == name]
    return found


def rows(steps: tuple[Step, ...]) -> set[tuple[str, str, float]]:
    return {told(step)[:3] for step in steps}


def test_at_first_only_full_models_and_tickets_can_be_planned():
    plan = existence().plan(NOTHING)
    assert rows(plan.graph.wanted) == {
        (task, *row)
        for task in ("one", "two")
        for row in (("full", 0.0), ("imp", 0.3), ("imp", 0.5), ("imp", 0.7))
    }
    assert len(plan.graph.wanted) == 2 * 4 * 3, "three seeds of each"


def test_controls_stand_at_the_winning_sparsities_and_nowhere_else():
    plan = existence().plan(KNOWN)
    controls = rows(plan.graph.wanted) - rows(existence().plan(NOTHING).graph.wanted)
    assert controls == {("one", name, at) for name in ("random", "reinit", "shuffle") for at in (0.3, 0.5)}


def test_what_may_follow_is_an_upper_bound_of_what_does():
    study = existence()
    first, last = study.plan(NOTHING), study.plan(KNOWN)
    follow = len(last.graph.wanted) - len(first.graph.wanted)
    assert 0 < follow <= first.later
    assert last.later == 0


def test_one_task_does_not_wait_for_another():
    half = Made(lambda task, *rest: score(task, *rest) if task == "one" else None)
    assert ("one", "random", 0.5) in rows(existence().plan(half).graph.wanted)


def test_with_controls_at_all_everything_is_planned_at_once():
    study = existence(controls_at="all")
    plan = study.plan(NOTHING)
    assert plan.later == 0
    assert ("two", "shuffle", 0.7) in rows(plan.graph.wanted)
    assert len(plan.graph.wanted) == 2 * (4 + 3 * 3) * 3


def test_a_control_has_the_mask_of_the_ticket_of_its_own_seed():
    study = existence()
    search = study.searches["one"]
    for seed, step in study.control_row(search, "shuffle", 0.5).items():
        assert step.inputs["mask"] == search.retrained[0.5][seed].inputs["mask"]
        assert step.parameters["seed"] == seed
    masks = {step.inputs["mask"].step for step in study.control_row(search, "random", 0.5).values()}
    assert len(masks) == 3, "every seed draws a random mask of its own"
    assert {step.parameters["zeros"] for step in masks} == {50}


def test_table_2_by_hand():
    table = named(existence(), KNOWN, "table-2")
    assert isinstance(table, Table)
    texts = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert texts["winning sparsity"] == ["50%", "none"]
    assert texts["full model"] == ["80.0 ± 1.0", "80.0 ± 1.0"]
    assert texts["IMP ticket"] == ["79.5 ± 1.0", "–"]
    assert texts["random"] == ["55.0 ± 1.0", "–"]
    assert any("1 of 2 tasks" in note for note in table.notes)


def test_table_4_uses_its_own_criterion_and_its_own_sparsity():
    texts = {
        row[0].text: [cell.text for cell in row[1:]] for row in named(existence(), KNOWN, "table-4").rows
    }
    assert texts["winning sparsity"] == ["30%", "none"]
    assert texts["IMP ticket"][0] == "80.5 ± 1.0"


def test_every_number_of_a_table_names_its_runs():
    study = existence()
    for row in named(study, KNOWN, "table-2").rows[1:]:
        for cell in row[1:]:
            assert (len(cell.runs) == 3) == (cell.value is not None)
    dense = study.searches["one"].dense
    assert named(study, KNOWN, "table-2").rows[1][1].runs == tuple(dense[seed].identity for seed in (0, 1, 2))


def test_table_5_prints_median_best_and_no_reference_for_another_model():
    lines = [[cell.text for cell in row] for row in named(existence(), KNOWN, "table-5").rows]
    assert lines[0] == ["one", "full model", "0%", "80.0 ± 1.0", "80.0", "81.0", "3", "–"]
    assert lines[1] == ["one", "IMP ticket", "50%", "79.5 ± 1.0", "79.5", "80.5", "3", "–"]


def test_table_6_judges_each_metric_by_itself():
    def by_metric(step: Step):
        found = score("one", *told(step)[1:])
        # F1 of `two` collapses at 50 %, its accuracy does not.
        lower = found - 30 if told(step)[1] == "imp" and told(step)[2] >= 0.5 else found
        return {"dev": {"accuracy": found, "f1": lower, "matthews": found}}

    known = Made(score)
    known.metrics = by_metric  # type: ignore[method-assign]
    lines = [[cell.text for cell in row[:3]] for row in named(existence(), known, "table-6").rows]
    assert lines == [["two", "accuracy", "50%"], ["two", "f1", "30%"]], "only tasks with two metrics"


def test_without_a_task_of_two_metrics_there_is_no_table_6():
    names = [artefact.name for artefact in existence(tasks=["one"]).artefacts(KNOWN)]
    assert "table-6" not in names
    assert "table-5" in names


def test_further_development_sets_are_measures_of_their_own():
    known = Made(score)
    known.metrics = lambda step: {  # type: ignore[method-assign]
        "dev": {"accuracy": 80.0 + NOISE[step.parameters["seed"]], "f1": 1.0},
        "dev_mismatched": {"accuracy": 81.0},
    }
    lines = [
        [cell.text for cell in row[:2]] for row in named(existence(tasks=["one"]), known, "table-6").rows
    ]
    assert lines == [["one", "accuracy"], ["one", "accuracy, mismatched"]]


def test_figure_11_starts_at_the_full_model():
    figure = named(existence(), KNOWN, "figure-11")
    assert isinstance(figure, Curves)
    curve = figure.panels[0].curves[0]
    assert curve.x == (0.0, 0.3, 0.5, 0.7)
    assert curve.mean == (80.0, 80.5, 79.5, 60.0)
    assert curve.std == tuple([pytest.approx(statistics.stdev(NOISE))] * 4)
    assert [curve.x for curve in figure.panels[0].curves[1:]] == [(0.3, 0.5)] * 3
    assert len(figure.panels[1].curves) == 1, "no controls where nothing wins"


def test_a_degenerate_task_is_flagged_and_counted_apart():
    study = existence()
    low = Made(lambda task, row, sparsity, seed: 50.0 if task == "two" else score(task, row, sparsity, seed))
    table = named(study, low, "table-2")
    assert table.columns == ("", "one", "two †")
    assert any(
        "2 of 2 tasks" in note and "without the degenerate ones 1 of 1" in note for note in table.notes
    )
    assert any("two is degenerate" in note for note in table.notes)


def test_a_missing_seed_gives_no_number():
    without = Made(
        lambda task, row, at, seed: None if (row, at, seed) == ("imp", 0.7, 2) else score(task, row, at, seed)
    )
    table = named(existence(), without, "table-2")
    texts = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert texts["winning sparsity"] == ["none", "none"], "the grid is not whole: nothing can be the highest"
    lines = named(existence(), without, "comparisons").rows
    missing = [row for row in lines if row[3].text == "–"]
    assert [(row[0].text, row[1].text) for row in missing] == [("one", "70%"), ("two", "70%")]


def test_comparisons_are_paired_by_seed():
    lines = named(existence(), KNOWN, "comparisons").rows
    (line,) = [row for row in lines if [cell.text for cell in row[:3]] == ["one", "50%", "full model"]]
    assert line[5].text == "-0.5"
    assert line[6].text == "[-0.5, -0.5]", "the noise is the seed's, so it cancels in the differences"
    (line,) = [row for row in lines if [cell.text for cell in row[:3]] == ["one", "50%", "random"]]
    assert line[5].text == "+24.5"


def test_every_run_is_listed_once():
    study = existence()
    listed = [row[5].runs[0] for row in named(study, KNOWN, "runs").rows]
    assert len(listed) == len(set(listed))
    assert set(listed) == {step.identity for step in study.plan(KNOWN).graph.wanted}


def test_criteria_are_the_papers():
    assert [str(entry) for entry in existence().criteria][:2] == [
        str(within_one_std()),
        str(match_or_exceed()),
    ]


def test_weights_stay_only_if_asked_for():
    assert existence().plan(NOTHING).graph.outputs == ()
    kept = existence(keep=["weights"]).plan(NOTHING).graph
    assert {ref.step for ref in kept.outputs} == set(kept.wanted)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seeds": 1}, "no standard deviation"),
        ({"controls": ["randm"]}, "there is no control 'randm'"),
        ({"controls": ["full"]}, "full model is no control"),
        ({"criteria": ["within_two_std"]}, "there is no criterion"),
        ({"method": "random", "rewind": 0.1}, "does not read"),
        ({"keep": ["masks"]}, "cannot be kept"),
        ({"sparsities": [70]}, "not a share"),
        ({"sparsities": ["0%"]}, "leaves everything or nothing"),
        ({"seeds": []}, "seeds"),
        ({"step": 1.5}, "step"),
        ({"controls_at": "never"}, "controls_at"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        existence(**settings)
