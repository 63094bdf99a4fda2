"""Exporting takes seconds: one exported folder for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.deploy.cases import structured_folder
from tests.tiny import tiny_bert_folder

from tombola.deploy.onnx_folder import Export


@pytest.fixture(scope="session")
def super_ticket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A structured ticket with its model; one layer has no head, another no FFN."""
    place = tmp_path_factory.mktemp("deploy")
    return structured_folder(tiny_bert_folder(place), place / "super")


@pytest.fixture(scope="session")
def exported(super_ticket: Path, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """That ticket's model as ONNX, with its tokenizer."""
    from tombola.deploy.onnx_folder import export_onnx
    from tombola.deploy.subject import open_subject, tokenizer_of

    subject = open_subject(super_ticket)
    assert subject.ticket is not None
    return export_onnx(
        subject.model,
        tmp_path_factory.mktemp("exports") / "super-onnx",
        tokenizer=tokenizer_of(subject),
        origin={"kind": "ticket", "identity": subject.ticket.identity},
    )
