"""The journey of a super ticket on a tiny model: find, look, load in one line, verify, through the command."""

from __future__ import annotations

import json

import pytest
import torch
from tests.test_journey import command, find_arguments

import tombola
from tombola import api
from tombola.engine import attempts
from tombola.errors import UsageError
from tombola.super_search import scored
from tombola.tasks.task import DataOptions


def arguments(tiny_bert, sentences, out, *more):
    return find_arguments(tiny_bert, sentences, out, "--method", "super", "--seeds", "2", *more)


@pytest.fixture(scope="module")
def found(tiny_bert, sentences, tmp_path_factory):
    """A super ticket of two levels and two seeds, found by the command."""
    place = tmp_path_factory.mktemp("super")
    words = arguments(tiny_bert, sentences, place / "ticket", "--levels", "25%,50%")
    done = command(*words, store=place / "store")
    assert done.returncode == 0, done.stderr
    return place, done, words


def test_find_leaves_a_smaller_model_that_loads_in_one_line(found):
    place, done, _ = found
    assert "tombola.load" in done.stdout
    ticket = tombola.Ticket.from_pretrained(place / "ticket")
    model = tombola.load(place / "ticket")
    level = ticket.settings["level"]
    # 2 layers of 2 heads: 25 % is one head, 50 % is two heads and one FFN.
    assert (ticket.mask.heads_removed, ticket.mask.ffns_removed) == {0.25: (1, 0), 0.5: (2, 1)}[level]
    full = ticket.model["sizes"]["parameters"]
    counted = sum(weight.numel() for name, weight in model.named_parameters() if name.startswith("bert."))
    assert counted < full
    assert model(input_ids=torch.tensor([[1, 2, 3]])).logits.shape == (1, 2)


def test_the_table_tells_every_level_and_who_chose_it(found):
    _, done, _ = found
    for word in ("full", "25%", "50%", "chosen by"):
        assert word in done.stdout


def test_the_report_has_the_phases_as_picture_and_numbers(found):
    place, _, _ = found
    names = {path.name for path in (place / "ticket-report").iterdir()}
    assert {"phases.svg", "phases.png", "phases.csv", "phases.json"} <= names
    (panel,) = json.loads((place / "ticket-report" / "phases.json").read_text())["panels"]
    (curve,) = panel["curves"]
    assert curve["x"][0] == 1.0
    assert curve["x"] == sorted(curve["x"], reverse=True)


def test_the_latency_of_the_ticket_stands_beside_the_full_models(found):
    place, _, _ = found
    measured = tombola.Ticket.from_pretrained(place / "ticket").about["latency"]
    assert measured["names"] == ["full", "ticket"]
    assert {cell["batch"] for cell in measured["cells"]} == {1, 32}


def test_a_second_find_repeats_nothing(found):
    place, _, words = found
    again = command(*words, "--force", "--json", store=place / "store")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert told["identity"] == tombola.Ticket.from_pretrained(place / "ticket").identity
    assert told["results"]["levels"][0] == told["level"]


def test_verify_retrains_the_fixed_structure(found, sentences):
    place, _, _ = found
    done = command(
        *("verify", place / "ticket", "--model", found[2][1], "--data", sentences, "--text", "text"),
        *("--label", "label", "--seeds", "2", "--against", "full,random", "--threads", 1, "--json"),
        store=place / "store",
    )
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)
    assert {row["name"] for row in told["rows"]} == {"full", "ticket", "random"}


def search(tiny_bert, sentences, **more):
    return {
        "model": str(tiny_bert),
        "method": "super",
        "data": DataOptions(data=sentences, text="text", label="label"),
        "recipe": api.make_recipe(None, epochs=1, batch_size=16, learning_rate=1e-2, max_length=16),
        "numerics": api.make_numerics(threads=1, device="cpu"),
        "levels": (0.25, 0.5),
        **more,
    }


def test_from_python_a_budget_leaves_only_the_levels_that_fit(tiny_bert, sentences, tmp_path):
    whole = api.plan_find(**search(tiny_bert, sentences))
    from tombola.finding.super_ticket import remaining_weight

    bound = remaining_weight(whole.problem, 0.5, "floor") + 1e-6
    ticket = tombola.find(**search(tiny_bert, sentences), store=tmp_path, budget=f"params<={bound:.7f}")
    assert ticket.settings["levels"] == [0.5]


def test_from_python_hopeless_levels_are_not_trained(tiny_bert, sentences, tmp_path, monkeypatch):
    from tombola import super_search

    monkeypatch.setattr(super_search, "hopeless", lambda outcome: True)
    ticket = tombola.find(**search(tiny_bert, sentences), store=tmp_path, stop_hopeless=True)
    assert ticket.settings["levels"] == [0.25]


def test_a_full_model_that_an_earlier_search_trained_is_not_trained_again(tiny_bert, sentences, tmp_path):
    """As the quickstart does it: the scores are made while the weights are there."""
    levels = api.plan_find(**search(tiny_bert, sentences))
    common = {**search(tiny_bert, sentences), "method": "magnitude", "sparsities": (0.3,), "seeds": (0,)}
    del common["levels"]
    first = api.plan_find(**common)
    api.find_and_verify(first, (0, 1), "within_points:2", tmp_path, also=scored(levels))
    api.run_super(levels, tmp_path)
    begun = [entry["run"] for entry in attempts.read(tmp_path) if entry["event"] == "began"]
    assert begun.count(levels.dense[0].identity) == 1


def test_budgets_of_methods_without_levels_are_refused(tiny_bert, sentences, tmp_path):
    settings = {**search(tiny_bert, sentences, method="imp"), "store": tmp_path}
    del settings["levels"]
    with pytest.raises(UsageError, match="no levels"):
        tombola.find(**settings, budget="params<=0.5")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--sparsity", "50%"), "does not read sparsity"),
        (("--levels", "0%"), "leaves everything or nothing"),
        (("--levels", "70"), "not a share"),
        (("--budget", "speed<=2"), "is no budget"),
        (("--rewind", "10%"), "does not read rewind"),
        (("--ffn-rule", "ceil"), "ffn_rule"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_trained(tiny_bert, sentences, tmp_path, more, said):
    done = command(*arguments(tiny_bert, sentences, tmp_path / "t", *more), store=tmp_path / "store")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "t").exists()
