"""The studies of super tickets on a tiny model: every step is run, and what comes out is of the runs it names."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest
from tests.tiny import WORDS
from typer.testing import CliRunner

from tombola.cli.app import app
from tombola.engine.store import Store
from tombola.tasks.submission import check_zip

COMMON = """
model: {model}
data_dir: {data}
tasks: {{wnli: {{max_train: 32}}}}
training: {{epochs: 2, batch_size: 16, learning_rate: 1e-2, max_length: 16}}
levels: [50%]
seeds: 2
"""
PHASES = f"study: phases{COMMON}subsets: [100%, 50%]\n"
TABLES = f"study: super_tables{COMMON}submission: true\n"


@pytest.fixture(scope="module")
def recipes(tiny_bert, tmp_path_factory):
    """Two recipes, and WNLI's folder with sentences whose label is which half of the words they use."""
    folder = tmp_path_factory.mktemp("super-recipes")
    drawn = random.Random(0)
    (folder / "GLUE" / "WNLI").mkdir(parents=True)
    for split, size in (("train", 40), ("dev", 30), ("test", 146)):
        rows = ["index\tsentence1\tsentence2" + ("" if split == "test" else "\tlabel")]
        for number in range(size):
            words = WORDS[10:20] if number % 2 else WORDS[20:30]
            texts = [" ".join(drawn.choices(words, k=4)) for _ in range(2)]
            rows.append("\t".join([str(number), *texts, *([] if split == "test" else [str(number % 2)])]))
        (folder / "GLUE" / "WNLI" / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    for name, text in (("phases", PHASES), ("tables", TABLES)):
        (folder / f"{name}.yaml").write_text(text.format(model=tiny_bert, data=folder / "GLUE"))
    return folder


def command(recipes, place) -> list[str]:
    files = [str(recipes / f"{name}.yaml") for name in ("phases", "tables")]
    return [
        "study",
        *files,
        "--engine",
        "inline",
        "--store",
        str(place / "store"),
        "--out",
        str(place / "out"),
    ]


@pytest.fixture(scope="module")
def finished(recipes, tmp_path_factory):
    place = tmp_path_factory.mktemp("super-finished")
    done = CliRunner().invoke(app, command(recipes, place), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return place


def table(place, study: str, name: str) -> list[list[dict]]:
    return json.loads((place / "out" / study / f"{name}.json").read_text())["rows"]


def test_tables_and_figures_come_out(finished):
    written = {str(path.relative_to(finished / "out")) for path in (finished / "out").rglob("*")}
    for name in ("figure-4", "figure-1-bias", "figure-1-variance", "figure-5-wnli"):
        assert {f"phases/{name}.{kind}" for kind in ("svg", "png", "json", "csv")} <= written
    for name in ("phases", "curves", "comparisons", "runs"):
        assert f"phases/{name}.csv" in written
    for name in ("table-1", "table-1-rest", "tickets", "table-6", "table-7", "table-9", "table-2"):
        assert f"tables/{name}.md" in written
    assert {"tables/figure-3.svg", "tables/glue-submission.zip", "tables/index.md"} <= written


def test_the_curves_are_the_scores_of_the_runs_they_name(finished):
    store = Store(finished / "store")
    whole = [row for row in table(finished, "phases", "curves") if row[1]["text"] == "100%"]
    for cell in (cell for row in whole for cell in row[8:11] if cell["runs"]):
        scores = [store.read_json((run, "metrics.json"))["dev"]["accuracy"] for run in cell["runs"]]
        assert len(scores) == 2
        assert cell["value"] == pytest.approx(sum(scores) / 2)
    removed = store.read_json((whole[1][9]["runs"][0], "metrics.json"))["structure"]
    assert (sum(removed["heads"]), sum(removed["ffns"])) == (2, 1), "half of 4 heads and of 2 FFNs are gone"


def test_the_subset_has_half_the_examples(finished):
    panels = json.loads((finished / "out" / "phases" / "figure-5-wnli.json").read_text())["panels"]
    assert [panel["title"] for panel in panels] == ["100%: 32 examples", "50%: 16 examples"]
    store = Store(finished / "store")
    steps = [store.read_json((panel["curves"][0]["runs"][0][0], "metrics.json"))["steps"] for panel in panels]
    assert steps[1] <= steps[0]
    assert panels[0]["curves"][0]["runs"] != panels[1]["curves"][0]["runs"]


def test_error_is_bias_and_variance_together(finished):
    figure = json.loads((finished / "out" / "phases" / "figure-1-bias.json").read_text())
    (run,) = figure["panels"][0]["curves"][0]["runs"][0]
    found = Store(finished / "store").read_json((run, "decomposition.json"))
    assert found["error"] == pytest.approx(found["bias_squared"] + found["variance"])
    assert found["error"] > 0
    assert found["variance"] > 0
    assert (found["seeds"], found["examples"]) == (2, 30)


def test_the_share_that_chose_is_no_part_of_the_rest(finished):
    """Whole and rest differ by the tenth that stopping and levels were chosen on."""
    store = Store(finished / "store")
    whole, rest = (table(finished, "tables", name)[1][1] for name in ("table-1", "table-1-rest"))
    for run, seed in zip(whole["runs"], (0, 1), strict=True):
        metrics = store.read_json((run, "metrics.json"))
        share, others = metrics["dev_share"]["accuracy"], metrics["dev_rest"]["accuracy"]
        assert metrics["dev"]["accuracy"] == pytest.approx((3 * share + 27 * others) / 30), seed
    others = [store.read_json((run, "metrics.json"))["dev_rest"]["accuracy"] for run in whole["runs"]]
    assert rest["value"] == pytest.approx(sum(others) / 2)


def test_the_submission_is_what_the_benchmark_wants(finished):
    found = check_zip(finished / "out" / "tables" / "glue-submission.zip")
    assert found.problems == ()
    assert "WNLI.tsv" not in found.missing
    assert len(found.missing) == 10
    rows = {
        row[0]["text"]: [cell["text"] for cell in row[1:]] for row in table(finished, "tables", "table-2")
    }
    assert rows["WNLI.tsv"] == ["wnli", "146", "146", "predicted"]


def test_the_data_table_says_what_was_loaded(finished):
    (row,) = table(finished, "tables", "table-9")
    assert [cell["text"] for cell in row[3:6]] == ["32", "30", "146"]


def test_a_finished_study_answers_without_torch(finished, recipes):
    code = (
        "import sys; from tombola.cli.app import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'torch', 'transformers', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command(recipes, finished)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "0 steps to do" in done.stderr or "to do" not in done.stderr
