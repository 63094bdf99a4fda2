"""The tables and figures of the phases study, in the paper's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tombola.studies.artefact import Artefact
from tombola.studies.evidence import runs_table

if TYPE_CHECKING:
    from tombola.studies.phases import Phases
    from tombola.studies.study import Known


def artefacts(study: Phases, known: Known) -> tuple[Artefact, ...]:
    rows = [
        (task, "full", 0.0, found.problem, found.search.dense) for (task, _), found in study.searches.items()
    ]
    return (runs_table(known, rows),)
