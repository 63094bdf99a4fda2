"""``tombola study`` on a tiny model and files of one's own: run, stop, go on, change, and be told of mistakes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tombola.cli.app import app
from tombola.engine import attempts, mirror, performing
from tombola.engine.store import Store
from tombola.errors import TombolaError, TrainingError, UsageError
from tombola.plan.steps import STEPS

EXISTENCE = """
study: existence
model: {model}
tasks:
  one: {{data: {data}, text: text, label: label, max_train: 48, max_eval: 40}}
  two: {{data: {data}, text: text, label: label, max_train: 32, max_eval: 40, subset_seed: 1}}
training: {{epochs: 1, batch_size: 16, learning_rate: 1e-2, max_length: 16}}
method: imp
step: 0.4
sparsities: [40%, 60%]
seeds: 2
criteria: [match_or_exceed, "within_points:100"]
controls: [random]
"""
TRANSFER = EXISTENCE.replace("study: existence", "study: transfer").partition("criteria")[0] + (
    "criterion: within_points:100\nfigure_2: 60%\nfigure_5: 40%\ntable_7: [one]\n"
)


@pytest.fixture(scope="module")
def recipes(tiny_bert, sentences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    for name, text in (("exists", EXISTENCE), ("transfers", TRANSFER)):
        (folder / f"{name}.yaml").write_text(text.format(model=tiny_bert, data=sentences))
    return folder


def study(recipes, store, *arguments, names=("exists",)):
    """In this process: the command's own code, without the seconds that its imports take."""
    files = [str(recipes / f"{name}.yaml") for name in names]
    told = ["study", *files, "--engine", "inline", "--store", str(store), *map(str, arguments)]
    return CliRunner().invoke(app, told, catch_exceptions=False)


@pytest.fixture(scope="module")
def finished(recipes, tmp_path_factory):
    """Both recipes, run together."""
    place = tmp_path_factory.mktemp("finished")
    done = study(recipes, place / "store", "--out", place / "out", names=("exists", "transfers"))
    assert done.exit_code == 0, done.output
    return place, done


def begun(store):
    return [entry["run"] for entry in attempts.read(Store(store).root) if entry["event"] == "began"]


def test_tables_and_figures_come_out(finished):
    place, done = finished
    written = {str(path.relative_to(place / "out")) for path in (place / "out").rglob("*") if path.is_file()}
    for name in ("table-4", "table-winning-within-points-100", "table-5", "comparisons", "runs"):
        assert {f"exists/{name}.{kind}" for kind in ("csv", "json", "md", "tex")} <= written
    for name in ("figure-2a", "figure-2b", "figure-5", "figure-6"):
        assert {f"transfers/{name}.{kind}" for kind in ("svg", "pdf", "png", "json")} <= written
    assert {"exists/figure-11.svg", "exists/index.md", "transfers/table-7.csv"} <= written
    assert "winning sparsity" in done.output


def test_numbers_are_those_of_the_runs_they_name(finished):
    place, _ = finished
    store = Store(place / "store")
    table = json.loads((place / "out" / "exists" / "table-winning-within-points-100.json").read_text())
    full, ticket = table["rows"][1][1], table["rows"][2][1]
    for cell in (full, ticket):
        scores = [store.read_json((run, "metrics.json"))["dev"]["accuracy"] for run in cell["runs"]]
        assert cell["value"] == pytest.approx(sum(scores) / len(scores))
        assert len(scores) == 2


def test_nothing_was_done_twice_and_nothing_is_done_again(finished, recipes, tmp_path):
    place, _ = finished
    assert len(begun(place / "store")) == len(set(begun(place / "store")))
    before = begun(place / "store")
    again = study(recipes, place / "store", "--out", tmp_path / "out", names=("exists", "transfers"))
    assert again.exit_code == 0
    assert begun(place / "store") == before
    for path in (place / "out").rglob("*.json"):
        assert path.read_bytes() == (tmp_path / "out" / path.relative_to(place / "out")).read_bytes()


def test_a_dry_run_runs_nothing_and_counts_what_is_shared(recipes, tmp_path):
    done = study(recipes, tmp_path / "store", "--dry-run", names=("exists", "transfers"))
    assert begun(tmp_path / "store") == []
    assert "0 done before" in done.output
    assert "may follow" in done.output
    told = json.loads(
        study(recipes, tmp_path / "store", "--dry-run", "--json", names=("exists", "transfers")).stdout
    )
    assert told["all_trainings"] < sum(told["apart"].values())
    assert not list(tmp_path.glob("results*"))


def test_a_dry_run_of_a_finished_study_says_so(finished, recipes):
    place, _ = finished
    told = json.loads(study(recipes, place / "store", "--dry-run", "--json").stdout)
    assert told["to_run"] == told["later_trainings_at_most"] == 0
    assert told["steps"] == told["done"]


def test_a_changed_recipe_reuses_exactly_the_unchanged_steps(finished, recipes, tmp_path):
    place, _ = finished
    store = tmp_path / "store"
    shutil.copytree(place / "store", store)
    before = set(begun(store))
    changed = study(
        recipes, store, "--set", "tasks.two.training.learning_rate=2e-2", "--out", tmp_path / "out"
    )
    assert changed.exit_code == 0
    new = [Store(store).run(run) for run in begun(store) if run not in before]
    specifications = [json.loads((run.folder / "spec.json").read_text()) for run in new if run is not None]
    rates = {
        spec["parameters"]["recipe"]["learning_rate"] for spec in specifications if spec["step"] == "train"
    }
    assert rates == {2e-2}, "only the trainings of the changed task"
    # Dropped weights may be made again for the masks of the changed task, never a finished result.
    remade = [entry for entry in attempts.read(store) if entry["event"] == "began" and entry["run"] in before]
    assert all("recompute" in entry for entry in remade[len(before) :])


def test_json_is_one_document(finished, recipes, tmp_path):
    place, _ = finished
    done = study(recipes, place / "store", "--json", "--out", tmp_path / "out")
    told = json.loads(done.stdout)
    assert told["failed"] == []
    assert told["studies"]["exists"]["tables"][0]["name"] == "table-4"


def test_a_failing_task_does_not_stop_the_other(recipes, tmp_path, monkeypatch):
    def failing(parameters, inputs, sources, work):
        if sources["task"]["subset_seed"] == 1:
            raise TrainingError("the training has diverged")
        STEPS["train"].function(parameters, inputs, sources, work)

    monkeypatch.setattr(performing, "STEPS", {**STEPS, "train": replace(STEPS["train"], function=failing)})
    done = study(recipes, tmp_path / "store", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "tombola: FAILED" in done.stderr
    assert "diverged" in done.stderr
    assert "type the same command again" in done.stderr
    texts = [
        [cell["text"] for cell in row]
        for row in json.loads((tmp_path / "out" / "table-4.json").read_text())["rows"]
    ]
    assert texts[1][1] != "–"
    assert texts[1][2] == "–"


def test_an_environment_of_another_kind_is_said_and_refused_on_request(
    finished, recipes, tmp_path, monkeypatch
):
    place, _ = finished
    store = tmp_path / "store"
    shutil.copytree(place / "store", store)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(performing, "environment", lambda: {"torch": "1.0"})
        done = study(recipes, store, "--set", "seeds=3", "--out", tmp_path / "out")
    assert "2 environments" in done.stderr
    assert "2 environments" in (tmp_path / "out" / "index.md").read_text()
    with pytest.raises(TombolaError, match="another environment"):
        study(recipes, store, "--set", "seeds=3", "--strict-environment")


class Deaf:
    """A tracker that cannot be told anything."""

    name = "deaf-1"

    def mirror(self, run):
        raise ConnectionError("nobody listens")

    def close(self):
        pass


def test_a_tracker_that_fails_stops_nothing_and_is_told_later(finished, recipes, tmp_path, monkeypatch):
    told = []
    monkeypatch.setitem(mirror.MIRRORS, "toy", lambda place, experiment: Deaf())
    changed = ("--set", "seeds=1", "--set", "criteria=[match_or_exceed]", "--mirror", "toy:x")
    done = study(recipes, tmp_path / "store", *changed, "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert done.stderr.count("nobody listens") == 1
    assert "tombola store mirror toy:x" in done.stderr
    monkeypatch.setattr(Deaf, "mirror", lambda self, run: told.append(run.identity))
    later = ["store", "mirror", "toy:x", "--store", str(tmp_path / "store"), "--json"]
    trainings = json.loads(CliRunner().invoke(app, later, catch_exceptions=False).stdout)["told"]
    assert trainings == len(told) == len(set(told)) > 4
    assert json.loads(CliRunner().invoke(app, later, catch_exceptions=False).stdout)["told"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mirror", "mlflaw:x"), "did you mean 'mlflow'"),
        (("--engine", "lokal"), "did you mean 'local'"),
        (("--engine", "inline", "--workers", "2"), "in this process alone"),
        (("--workers", "0"), "0 workers"),
        (("--address", "auto"), "only the ray engine"),
        (("--set", "seeds"), "sets nothing"),
        (("--set", "seedz=2"), "did you mean 'seeds'"),
        (("--set", "tasks.one.label=nothing"), "nothing"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(recipes, tmp_path, arguments, said):
    with pytest.raises(TombolaError) as caught:
        study(recipes, tmp_path / "store", *arguments)
    assert said in str(caught.value)
    assert begun(tmp_path / "store") == []


def test_a_recipe_named_twice_and_one_that_is_not_there(recipes, tmp_path):
    with pytest.raises(UsageError, match="named twice"):
        study(recipes, tmp_path / "store", names=("exists", "exists"))
    with pytest.raises(UsageError, match="there is no recipe"):
        study(recipes, tmp_path / "store", names=("nowhere",))
