"""Verifying a structured ticket from its folder: from plan to answer, and what is refused before any training."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tombola
from tombola import api
from tombola.cli.app import app
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.errors import CorruptArtifact, MaskMismatch, UsageError
from tombola.masks.structure_mask import StructureMask
from tombola.plan.graph import Graph
from tombola.plan.problem import Problem
from tombola.plan.trainings import ticket_import
from tombola.tasks.task import DataOptions
from tombola.ticket import Ticket
from tombola.verifying.claim import StructureClaim

MASK = StructureMask(((True, False), (True, True)), (True, False))
CONTROLS = ("full", "random", "reinit", "shuffle", "shuffle-within")


@pytest.fixture(scope="module")
def problem(tiny_bert: Path, sentences: Path) -> Problem:
    return api.plan_find(
        str(tiny_bert),
        method="magnitude",
        data=DataOptions(data=sentences, text="text", label="label"),
        recipe=api.make_recipe(None, epochs=1, batch_size=16, learning_rate=1e-2, max_length=16),
        numerics=api.make_numerics(threads=1, device="cpu"),
    ).problem


def ticket_of(problem: Problem, mask: StructureMask = MASK, **model: Any) -> Ticket:
    assert problem.model.sizes is not None
    facts = {
        **{"source": problem.model.name, "kind": "folder", "fingerprint": problem.model.fingerprint},
        **{"config": problem.model.config, "family": "bert", "prefix": "bert"},
        "sizes": asdict(problem.model.sizes),
    }
    return Ticket(
        mask,
        {**facts, **model},
        task={"name": problem.task.name, "own_files": True, "fingerprint": problem.task.fingerprint},
        method="super",
        settings={"recipe": problem.recipe.to_json(), "numerics": problem.numerics.to_json()},
    )


def told(problem: Problem, tiny_bert: Path) -> dict[str, Any]:
    data = DataOptions(data=Path(problem.task.source["data"]), text="text", label="label")
    return {"model": str(tiny_bert), "data": data, "numerics": problem.numerics}


@pytest.fixture(scope="module")
def verified(problem: Problem, tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("verified")
    folder = ticket_of(problem).save_pretrained(place / "ticket")
    return tombola.verify(
        folder,
        seeds=2,
        against=CONTROLS,
        criterion="within_points:100",
        store=place / "store",
        **told(problem, tiny_bert),
    )


def test_every_row_is_as_small_as_it_should_be(verified: Any, problem: Problem) -> None:
    assert problem.model.sizes is not None
    left = problem.model.sizes.remaining_weight(MASK)
    assert verified.claimed == left
    assert left - 0.02 < verified.measured < left, "the removed parts' biases are gone too"
    assert verified.row("full").measured == 1.0
    for name in ("ticket", *CONTROLS[1:]):
        assert verified.row(name).measured == pytest.approx(verified.measured), name
    assert verified.winning
    assert verified.fixed_mask


def test_the_answer_is_printed_as_one_fixed_mask(verified: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from tombola.cli.printing import print_verification, verification_json

    print_verification(verified)
    printed = capsys.readouterr().out
    assert "one fixed mask retrained" in printed
    assert f"remaining weight claimed {verified.claimed:.4%}" in printed
    assert "sparsity" not in printed
    assert "early stopping" not in printed, "this recipe trains to the end"
    document = json.loads(json.dumps(verification_json(verified)))
    assert document["remaining_weight"] == {"claimed": verified.claimed, "measured": verified.measured}
    assert document["rows"][0]["remaining_weight"] == 1.0
    assert "sparsity" not in document


def test_the_import_step_puts_the_structure_into_the_store(problem: Problem, tmp_path: Path) -> None:
    ticket = ticket_of(problem)
    folder = str(ticket.save_pretrained(tmp_path / "ticket"))
    step = ticket_import(problem, ticket=ticket.identity, folder=folder, structured=True)
    store = Store(tmp_path / "store")
    run(Graph((step,)), store)
    assert StructureMask.from_json(store.read_json(step.out("structure.json"))) == MASK
    other = ticket_import(problem, ticket="0" * 64, folder=folder, structured=True)
    with pytest.raises(CorruptArtifact, match="another ticket"):
        run(Graph((other,)), store)


def planned(ticket: Ticket, problem: Problem, tiny_bert: Path, **settings: Any) -> Any:
    whole = {**told(problem, tiny_bert), **settings}
    return api.plan_verify(ticket, "somewhere", api.VerifySettings(seeds=(0, 1), **whole))


def test_the_plan_claims_what_the_ticket_says(problem: Problem, tiny_bert: Path) -> None:
    plan = planned(ticket_of(problem), problem, tiny_bert)
    assert problem.model.sizes is not None
    assert plan.claim == StructureClaim(1, 1, problem.model.sizes)
    assert plan.rows["ticket"][0].inputs["structure"].step.kind == "import_ticket"


def test_sizes_that_are_not_the_models_are_refused(problem: Problem, tiny_bert: Path) -> None:
    assert problem.model.sizes is not None
    boasting = asdict(replace(problem.model.sizes, parameters=problem.model.sizes.parameters + 1))
    with pytest.raises(MaskMismatch, match="says other sizes of its full model"):
        planned(ticket_of(problem, sizes=boasting), problem, tiny_bert)


def test_a_control_without_meaning_is_refused_before_any_training(problem: Problem, tiny_bert: Path) -> None:
    with pytest.raises(UsageError, match="ranks single weights"):
        planned(ticket_of(problem), problem, tiny_bert, against=("full", "magnitude"))


def test_inspecting_shows_the_layers_and_the_shares(problem: Problem, tmp_path: Path) -> None:
    ticket = ticket_of(problem)
    folder = str(ticket.save_pretrained(tmp_path / "ticket"))
    shown = CliRunner().invoke(app, ["inspect", folder])
    assert shown.exit_code == 0, shown.output
    assert "2 layers · heads 3/4 · FFN 1/2" in shown.output
    assert "      0  ■□     ■" in shown.output
    document = json.loads(CliRunner().invoke(app, ["inspect", folder, "--json"]).output)
    assert document["kind"] == "structure"
    assert document["remaining_weight"] == ticket.remaining_weight
    assert StructureMask.from_json(document["structure"]) == MASK
    assert "sparsity" not in document
