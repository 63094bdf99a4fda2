"""Numbers, tables and names as a ticket's block and card print them; a stranger's ticket is never trusted with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard


@dataclass(frozen=True)
class Words:
    """What a block and a card say of a ticket's own kind of mask; all else is the same for every ticket."""

    #: the block: after the identity, below that line, after the scores, and at the end
    headline: str
    below: tuple[str, ...]
    measured: tuple[str, ...]
    picture: tuple[str, ...]
    #: the card: what such a ticket is, how it is loaded and trained, what it does for speed, its tables
    what: str
    load_trained: tuple[str, ...]
    train: tuple[str, ...]
    speed: str
    section: tuple[str, ...]
    results: tuple[str, ...] = ()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def score(summary: Mapping[str, Any]) -> str:
    """``66.2 ± 3.6, n = 3``; what is unknown is left out."""
    std = f" ± {summary['std']:.1f}" if is_number(summary.get("std")) else ""
    return f"{summary['mean']:.1f}{std}" + (f", n = {summary['n']}" if summary.get("n") else "")


def number(value: Any) -> str:
    return f"{value:.2f}" if is_number(value) else "–"


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12


def printable(text: str) -> str:
    """A stranger's ticket must not send control sequences to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def labels_of(task: Mapping[str, Any] | None) -> int:
    """How many classes to write into an example; two where the task does not say."""
    labels = (task or {}).get("labels")
    return len(labels) if isinstance(labels, list) and len(labels) > 1 else 2


def summaries(results: Mapping[str, Any], section: str = "summary") -> dict[str, Mapping[str, Any]]:
    """The rows of a section of ``results`` that hold a mean."""
    found = results.get(section)
    if not isinstance(found, Mapping):
        return {}
    return {
        str(row): summary
        for row, summary in found.items()
        if isinstance(summary, Mapping) and is_number(summary.get("mean"))
    }
