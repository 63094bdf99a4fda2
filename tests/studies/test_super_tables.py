"""The study of super tickets against full models: its tables, figure and submission against numbers by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.studies.made_up import SuperMade, phases, super_tables, told_super

from tombola.errors import RecipeError
from tombola.studies.artefact import Archive, Bars, Table
from tombola.studies.super_tables import SuperTables

NOISE = (-1.0, 0.0, 1.0)
#: Winning tickets by level; the share that levels are chosen on says otherwise for seed 2.
MEANS = {0.0: 80.0, 0.2: 81.0, 0.5: 82.0, 0.8: 60.0}


def score(task: str, row: str, level: float, seed: int) -> float:
    return MEANS[level] + NOISE[seed]


def share(task: str, level: float, seed: int) -> float:
    """Seeds 0 and 1 choose 50 %, seed 2 chooses 20 %."""
    return {0.2: 99.0 if seed == 2 else 1.0, 0.5: 50.0}.get(level, 0.0)


KNOWN = SuperMade(score, share)
NOTHING = SuperMade(lambda *_: None)


def named(study, known, name):
    (found,) = [artefact for artefact in study.artefacts(known) if artefact.name == name]
    return found


def texts(table: Table) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def trainings(graph) -> list:
    return [step for step in graph.steps if step.kind == "train"]


def test_full_models_winning_tickets_and_choices_are_planned_and_nothing_else():
    plan = super_tables().plan(NOTHING)
    assert {told_super(step)[1] for step in trainings(plan.graph)} == {"full", "winning"}
    assert len(trainings(plan.graph)) == 2 * 3 * 4
    assert sum(step.kind == "choose_level" for step in plan.graph.steps) == 2 * 3
    assert plan.later == 0


def test_its_trainings_are_those_of_the_phases():
    mine = {step.identity for step in super_tables().plan(NOTHING).graph.steps}
    theirs = {step.identity for step in phases().plan(NOTHING).graph.steps}
    assert mine < theirs


def test_table_1_by_hand():
    """Seeds 0, 1, 2 stand at 50, 50, 20 %: 81, 82, 82 against 79, 80, 81."""
    table = named(super_tables(), KNOWN, "table-1")
    assert table.columns == ("", "one accuracy", "two accuracy", "two f1", "average", "remaining")
    found = texts(table)
    # The average counts `two` as the mean of its metrics, one point above the first: (80 + 81) / 2.
    assert found["full model"] == ["80.0 ± 1.0", "80.0 ± 1.0", "82.0 ± 1.0", "80.5 ± 1.0", "100%"]
    ticket = ["81.7 ± 0.6", "81.7 ± 0.6", "83.7 ± 0.6", "82.2 ± 0.6"]
    # 50 % leaves 73.6 % of the model, 20 % leaves 90.4 %: (2 · 73.6 + 90.4) / 3.
    assert found["super ticket"] == [*ticket, "79.2%"]
    assert found["ticket − full"][0] == "+1.7"
    # Differences 2, 2, 1: t = 5 with 2 degrees of freedom.
    assert found["p, paired t-test"][0] == "0.038"
    assert not any("printed" in name for name in found)


def test_the_rest_of_the_development_set_is_told_apart():
    found = texts(named(super_tables(), KNOWN, "table-1-rest"))
    assert found["full model"][0] == "79.0 ± 1.0"
    assert found["super ticket"][0] == "80.7 ± 0.6"


def test_every_seed_stands_at_the_level_that_it_chose():
    study = super_tables()
    ticket = named(study, KNOWN, "table-1").rows[1][1]
    search = study.searches["one"].at(0).search
    at = {0: 0.5, 1: 0.5, 2: 0.2}
    assert ticket.runs == tuple(search.retrained[level][seed].identity for seed, level in at.items())
    assert texts(named(study, KNOWN, "tickets"))["one"][:2] == ["50%, 50%, 20%", "79.2% ± 9.7"]


def test_a_seed_may_choose_the_full_model():
    def full(task, level, seed):
        return 100.0 if level == 0 and seed == 1 else share(task, level, seed)

    class WithFull(SuperMade):
        def json(self, output):
            found = super().json(output)
            scores = {name: sum(parts["share"].values()) for name, parts in found["levels"].items()}
            return {**found, "chosen": float(max(scores, key=scores.__getitem__))}

    study = super_tables(include_full=True, tasks=["one"])
    known = WithFull(score, full)
    assert texts(named(study, known, "tickets"))["one"][0] == "50%, 0%, 20%"
    ticket = named(study, known, "table-1").rows[1][1]
    assert ticket.runs[1] == study.searches["one"].at(0).search.dense[1].identity


def test_table_6_is_the_std_over_seeds():
    found = texts(named(super_tables(), KNOWN, "table-6"))
    assert found == {"full model": ["1.00", "1.00"], "super ticket": ["0.58", "0.58"]}


def test_table_7_is_the_remaining_weight():
    table = named(super_tables(), KNOWN, "table-7")
    assert texts(table) == {"super ticket": ["79.2% ± 9.7", "79.2% ± 9.7", "79.2%"]}


def test_table_9_says_what_was_loaded():
    study = replace(
        super_tables(tasks=["one", "number"]),
        further={
            "one": {
                "test": {"fingerprint": "t", "examples": 1725},
                "dev_other": {"fingerprint": "d", "examples": 9},
            },
            "number": {},
        },
    )
    found = texts(named(study, KNOWN, "table-9"))
    assert found["one"] == [
        *("classification", "no, yes", "64", "10", "1,725", "dev_other 9", "accuracy", "50.0")
    ]
    assert found["number"][:2] == ["regression", "numbers"]
    assert found["number"][4:6] == ["–", "–"]


def test_figure_3_by_hand():
    figure = named(super_tables(), KNOWN, "figure-3")
    assert isinstance(figure, Bars)
    gains, weights = figure.panels
    assert [(bar.label, bar.text) for bar in gains.bars] == [
        *(("one", "+1.7"), ("two", "+1.7"), ("average", "+1.7"))
    ]
    assert (gains.bars[0].low, gains.bars[0].high) == (1.0, 2.0)
    assert [bar.text for bar in weights.bars] == ["79.2%", "79.2%", "79.2%"]
    assert weights.bars[0].value == pytest.approx(79.2)


@pytest.mark.parametrize(
    ("model", "full", "average"),
    [("google-bert/bert-base-uncased", "86.2", "82.8"), ("bert-large-uncased", "85.2", "84.1")],
)
def test_printed_numbers_stand_beside_those_of_the_papers_models(model, full, average):
    study = as_glue(super_tables(tasks=["two"], model=model), {"two": "mrpc"})
    found = texts(named(study, KNOWN, "table-1"))
    # An average over other tasks than the paper's is not the paper's.
    assert found["full model, printed"] == [full, {"86.2": "90.4", "85.2": "89.5"}[full], "–", "–"]
    assert average not in found["full model, printed"]
    assert texts(named(study, KNOWN, "table-6"))["printed in the paper"] == [
        {"86.2": "0.20", "85.2": "0.61"}[full]
    ]
    assert not any("printed" in name for name in texts(named(study, KNOWN, "table-1-rest")))


def test_further_development_sets_are_whole_in_both_tables():
    class Two(SuperMade):
        def metrics(self, step):
            found = super().metrics(step)
            return found and {**found, "dev_mismatched": {"accuracy": found["dev"]["accuracy"] - 5}}

    study, known = super_tables(tasks=["one"]), Two(score, share)
    assert named(study, known, "table-1").columns[1:3] == ("one accuracy", "one accuracy, mismatched")
    whole, rest = (texts(named(study, known, name))["full model"] for name in ("table-1", "table-1-rest"))
    assert (whole[:2], rest[:2]) == (["80.0 ± 1.0", "75.0 ± 1.0"], ["79.0 ± 1.0", "75.0 ± 1.0"])
    assert any("all of them count" in note for note in named(study, known, "table-1-rest").notes)


def test_a_missing_training_leaves_its_task_without_numbers():
    without = SuperMade(
        lambda task, *row: None if (task, row) == ("one", ("winning", 0.8, 2)) else score(task, *row), share
    )
    study = super_tables()
    found = texts(named(study, without, "table-1"))
    assert found["super ticket"][0] == "–"
    assert found["super ticket"][1] == "81.7 ± 0.6"
    assert found["super ticket"][3:] == ["–", "–"], "an average over fewer tasks would be another number"
    assert named(study, without, "figure-3").panels[0].bars[0].text == "–"


# -- the submission -----------------------------------------------------------------------------------------------


def as_glue(study: SuperTables, names: dict[str, str]) -> SuperTables:
    """The same study as if its tasks were GLUE's, with test sets of three examples."""
    tasks = {names[task]: None for task in study.recipe.tasks}
    recipe = study.recipe.model_copy(update={"tasks": tasks})
    searches = {}
    for task, grid in study.searches.items():
        problems = tuple(
            replace(problem, task=replace(problem.task, name=names[task])) for problem in grid.problems
        )
        searches[names[task]] = replace(grid, problems=problems, _made={})
    further = {task: {"test": {"fingerprint": f"{task} test", "examples": 3}} for task in searches}
    return SuperTables(recipe, searches, further)


GLUE = {"one": "rte", "two": "mrpc"}


def test_nobody_is_asked_for_a_submission_unless_it_is_wanted():
    study = as_glue(super_tables(), GLUE)
    assert study.predictions(KNOWN) == {}
    assert not any(isinstance(artefact, Archive) for artefact in study.artefacts(KNOWN))


def test_the_best_seed_answers_the_test_sets_once_it_is_known():
    study = as_glue(super_tables(submission=True), GLUE)
    before, after = study.plan(NOTHING), study.plan(KNOWN)
    assert not any(step.kind == "predict" for step in before.graph.steps)
    assert (before.later, after.later) == (2, 0)
    steps = {step.sources["task"]["name"]: step for step in after.graph.steps if step.kind == "predict"}
    predicted = study.predictions(KNOWN)
    assert set(predicted) == {"rte", "mrpc"}
    assert len(steps) == 1, "the made-up tasks have one source"
    # Seed 1: 82 on average, as seed 2 has, which stands behind it.
    search = study.searches["rte"].at(0).search
    step = predicted["rte"]
    assert step.inputs["weights"].step == search.retrained[0.5][1]
    assert step.inputs["structure"] == search.candidates[0.5][1].mask
    assert step.parameters["splits"] == {"test": "rte test"}


def test_the_archive_holds_what_was_predicted_and_the_table_says_what_is_missing():
    study = as_glue(super_tables(submission=True), GLUE)
    archive = named(study, KNOWN, "glue-submission")
    assert dict(archive.files) == {
        "RTE.tsv": "index\tprediction\n0\tentailment\n1\tnot_entailment\n2\tnot_entailment\n",
        "MRPC.tsv": "index\tprediction\n0\t0\n1\t1\n2\t1\n",
    }
    found = texts(named(study, KNOWN, "table-2"))
    assert found["RTE.tsv"] == ["rte", "3", "3,000", "predicted"]
    assert found["CoLA.tsv"][-1] == "cola is no task of this study"
    notes = named(study, KNOWN, "table-2").notes
    assert any("RTE.tsv: 3 predictions; the test set has 3000" in note for note in notes)
    assert any("still want CoLA.tsv" in note for note in notes)


def test_a_task_without_its_test_file_is_named_as_missing():
    study = as_glue(super_tables(submission=True), GLUE)
    study = replace(study, further={**study.further, "mrpc": {}})
    assert set(study.predictions(KNOWN)) == {"rte"}
    found = texts(named(study, KNOWN, "table-2"))
    assert found["MRPC.tsv"][-1] == "its test file was not there to load"
    assert [name for name, _ in named(study, KNOWN, "glue-submission").files] == ["RTE.tsv"]


def test_files_of_ones_own_are_no_benchmark():
    study = super_tables(submission=True)
    assert study.predictions(KNOWN) == {}
    assert not any(isinstance(artefact, Archive) for artefact in study.artefacts(KNOWN))


# -- the grid -----------------------------------------------------------------------------------------------------

GRID = {"learning_rate": [5e-5, 1e-4], "batch_size": [8, 32]}


def point(step) -> tuple[float, int]:
    return step.parameters["recipe"]["learning_rate"], step.parameters["recipe"]["batch_size"]


class ByPoint(SuperMade):
    """The share of the full model's development set is best with 1e-4 and 8; its whole is best elsewhere."""

    def metrics(self, step):
        found = super().metrics(step)
        best = 100.0 if point(step) == (1e-4, 8) else 50.0
        return found and {**found, "dev_share": {"accuracy": best}}


def test_a_grid_is_tried_on_the_full_model_of_the_first_seed_alone():
    study = super_tables(tasks=["one"], grid=GRID, seeds=[4, 0, 1])
    plan = study.plan(NOTHING)
    assert {told_super(step)[1:] for step in plan.graph.steps} == {("full", 0.0, 4)}
    assert {point(step) for step in plan.graph.steps} == {(5e-5, 8), (5e-5, 32), (1e-4, 8), (1e-4, 32)}
    assert plan.later == 3 * 4 - 1


def test_the_chosen_point_is_reused_at_every_level_and_seed():
    study = super_tables(tasks=["one"], grid=GRID)
    plan = study.plan(ByPoint(score, share))
    searched = [step for step in trainings(plan.graph) if told_super(step)[1] == "winning"]
    assert {point(step) for step in searched} == {(1e-4, 8)}
    assert len(trainings(plan.graph)) == 3 + 3 * 4, "three trials that were not chosen, and the search"
    assert plan.later == 0


def test_a_search_waits_for_its_own_grid_only():
    half = ByPoint(lambda task, *row: score(task, *row) if task == "one" else None, share)
    study = super_tables(grid=GRID)
    assert {told_super(step)[0] for step in trainings(study.plan(half).graph) if told_super(step)[2]} == {
        "one"
    }
    notes = named(study, half, "table-1").notes
    assert any("Not planned yet, their grid is not done: two" in note for note in notes)


def test_phases_choose_the_same_way():
    study = phases(tasks=["one"], grid=GRID)
    assert len(trainings(study.plan(NOTHING).graph)) == 4
    searched = trainings(study.plan(ByPoint(score, share)).graph)
    assert len(searched) == 3 + 3 * (1 + 3 * 3)
    assert next(artefact.name for artefact in study.artefacts(NOTHING)) == "figure-4"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"grid": {"epochs": [1, 2]}}, "cannot try epochs"),
        ({"grid": {"batch_size": []}}, "at least one"),
        ({"grid": {"batch_size": [8, 8]}}, "must be different"),
        ({"grid": {"learning_rate": [-1]}}, "learning_rate"),
        ({"grid": {"batch_size": [8.5]}}, "batch_size"),
        ({"grid": {"batch_size": [8, 16]}, "training": {"early_stopping": False}}, "early_stopping: true"),
        ({"submission": "perhaps"}, "submission"),
        ({"kinds": ["winning"]}, "unknown setting 'kinds'"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        super_tables(**settings)
