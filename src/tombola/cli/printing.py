"""Tables and JSON on stdout."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tombola.verifying.verification import Row, Verification


#: Of tables that go into a file or a pipe.
WIDTH = 110


def print_json(value: Any) -> None:
    """One JSON document, nothing else."""
    print(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table as wide as the terminal allows, long cells folded."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        # Only the last column holds sentences; names and numbers stay whole.
        table.add_column(column, no_wrap=number < len(columns) - 1, overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", "\\[") for cell in row))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)


def print_verification(found: Verification) -> None:
    """The table of a verification, every criterion, and the answer in one line."""
    metrics = list(found.rows[0].summaries)
    columns = [
        "",
        found.measure,
        *metrics,
        "median",
        "best",
        "ticket − row",
        "95 % interval",
        "p",
    ]
    print_table(columns, [_cells(row, metrics) for row in found.rows])
    what = "one fixed mask retrained" if found.fixed_mask else "a whole search a seed"
    print(
        f"{len(found.seeds)} seeds ({', '.join(map(str, found.seeds))}), {what}; majority class {found.majority:.1f}"
    )
    print(
        f"{found.measure} claimed {found.claimed:.4%}, counted in the trained weights {found.measured:.4%}"
        + (f" ({found.note})" if found.note else "")
    )
    if any(row.rest for row in found.rows):
        said = ", ".join(f"{row.name} {row.rest.text()}" for row in found.rows if row.rest)
        print(f"{found.metric} without the share of dev that early stopping looked at: {said}")
    notes = {row.against_ticket.interval.note for row in found.rows if row.against_ticket}
    for note in sorted(notes - {""}):
        print(f"interval: {note}")
    for name, decision in found.decisions.items():
        print(
            f"  {decision if isinstance(decision, str) else decision.said}"
            + ("   <- asked" if name == found.criterion else "")
        )
    print(found.said)


def _cells(row: Row, metrics: Sequence[str]) -> list[str]:
    summary = row.summaries[metrics[0]]
    cells = [row.name, f"{row.measured:.1%}", *(row.summaries[metric].text() for metric in metrics)]
    cells += [f"{summary.median:.1f}", f"{summary.best:.1f}"]
    against = row.against_ticket
    if against is None:
        return [*cells, "", "", ""]
    low, high = against.interval.low, against.interval.high
    interval = "" if low is None or high is None else f"[{low:+.1f}, {high:+.1f}]"
    p_value = against.t_test.p_value
    return [*cells, f"{against.difference.mean:+.1f}", interval, "" if p_value is None else f"{p_value:.3f}"]


def verification_json(found: Verification) -> dict[str, Any]:
    """The whole verification as plain JSON; sizes stand under the name of what they are."""
    measure = found.measure.replace(" ", "_")
    return {
        "winning": found.winning,
        "said": found.said,
        "metric": found.metric,
        "seeds": list(found.seeds),
        "fixed_mask": found.fixed_mask,
        "criterion": found.criterion,
        "degenerate": found.degenerate,
        "majority": found.majority,
        measure: {"claimed": found.claimed, "measured": found.measured},
        "decisions": {
            name: decision if isinstance(decision, str) else asdict(decision)
            for name, decision in found.decisions.items()
        },
        "rows": [
            {
                "name": row.name,
                measure: row.measured,
                "scores": {metric: list(values) for metric, values in row.scores.items()},
                "summaries": {metric: summary.to_json() for metric, summary in row.summaries.items()},
                "ticket_minus_row": None if row.against_ticket is None else row.against_ticket.to_json(),
                "rest": None if row.rest is None else row.rest.to_json(),
                "runs": list(row.runs),
            }
            for row in found.rows
        ],
    }
