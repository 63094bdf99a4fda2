"""What people read about a ticket: the block that ``print(ticket)`` shows, and its folder's model card."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tombola.models.families import FAMILIES

if TYPE_CHECKING:
    from tombola.ticket import Ticket

_STARTS = {
    "pretrained": "the pre-trained weights θ0",
    "rewound": "θi, the weights after {step} steps of training (start.safetensors)",
    "trained": "the weights at the end of training, not rewound (start.safetensors)",
}
WHAT = (
    "A *lottery ticket* is a mask over the prunable weights of a pre-trained model, together with the "
    "weights it starts from: trained alone, all else zero, it is meant to do as well as the whole model."
)
WHICH = (
    "Sparsity is the share of *prunable* weights that are zero; embeddings, biases and layer norms are never "
    "pruned and not counted."
)
NOT_FASTER = (
    "An unstructured mask does not make dense kernels faster: the pruned weights are zeros that are still "
    "multiplied. It makes the model sparse, not smaller or quicker to run."
)


def block(ticket: Ticket) -> str:
    """One readable block, a fact a line."""
    mask, model = ticket.mask, ticket.model
    lines = [
        f"Ticket {ticket.identity[:12]}: {_percent(mask.sparsity)} of {mask.size:,} prunable weights "
        f"are zero ({len(mask)} matrices)"
    ]
    if set(model.get("optional", ())) & set(mask.names):
        lines.append(f"  without the optional pooler: {_percent(ticket.sparsity_without_optional)}")
    lines.append(f"  model   {_model(model)}")
    if ticket.task:
        lines.append(f"  task    {ticket.task.get('name')}")
    lines.append(f"  method  {_method(ticket)}")
    lines.append(f"  starts  from {_start(ticket)}")
    for row, summary in _summaries(ticket.results).items():
        lines.append(f"  {row:7} {ticket.results.get('metric', 'score')} {_score(summary)}")
    seeds = ticket.results.get("seeds")
    if ticket.results.get("own_search_per_seed") and isinstance(seeds, list) and len(seeds) > 1:
        lines.append(
            f"  a whole search per seed ({', '.join(map(str, seeds))}); this is the mask of seed {seeds[0]}"
        )
    return "\n".join(_printable(line) for line in lines)


def card(ticket: Ticket, *, license: str | None, has_model: bool) -> str:
    """README.md: front matter for the hub, then what the ticket is, how to load it, and what was measured."""
    task = ticket.task or {}
    source = str(ticket.model.get("source") or "unnamed model")
    title = f"A lottery ticket in {source}" + (f" for {task['name']}" if task.get("name") else "")
    parts = [
        _front_matter(ticket, license),
        f"# {title}",
        f"```text\n{block(ticket)}\n```",
        f"{WHAT} This repository holds the mask; the weights come from `{source}`, which is checked to be "
        "the same, bit for bit.",
        "## How to use it",
        _usage(ticket, has_model),
        NOT_FASTER,
        "## Where it is sparse",
        _sparsity_table(ticket),
        WHICH,
        *_results(ticket),
        "## Where it came from",
        _settings(ticket),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(ticket: Ticket, license: str | None) -> str:
    """YAML written as JSON scalars, which YAML reads: nothing a name contains can break out."""
    lines = ["---"]
    if ticket.model.get("source") and ticket.model.get("kind") != "folder":
        lines.append(f"base_model: {_scalar(ticket.model['source'])}")
    lines += [f"license: {_scalar(license or 'unknown')}", "library_name: tombola", "tags:"]
    lines += ["- tombola", "- lottery-ticket", f"- {_scalar(ticket.method)}", "---"]
    return "\n".join(lines)


def _scalar(value: Any) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _usage(ticket: Ticket, has_model: bool) -> str:
    labels = (ticket.task or {}).get("labels")
    count = len(labels) if isinstance(labels, list) and len(labels) > 1 else 2
    lines = [
        "import tombola",
        "",
        'ticket = tombola.Ticket.from_pretrained("this-folder-or-repository")',
        f"model = ticket.model(num_labels={count})   # mask ⊙ start weights, fresh head: to be trained",
        "callback = tombola.TicketCallback(ticket)   # keeps the zeros zero in transformers' Trainer",
    ]
    if has_model:
        lines.append('trained = tombola.load("this-folder-or-repository")   # the trained model')
    return "```python\n" + "\n".join(lines) + "\n```"


def _sparsity_table(ticket: Ticket) -> str:
    counts: dict[str, list[int]] = {}
    for name in ticket.mask.names:
        of_role = counts.setdefault(_role(name, ticket.model.get("family")) or name, [0, 0, 0])
        size = math.prod(ticket.mask.shapes[name])
        of_role[0] += 1
        of_role[1] += round(size * ticket.mask.sparsity_of(name))
        of_role[2] += size
    rows = [[role, str(n), f"{size:,}", _percent(zeros / size)] for role, (n, zeros, size) in counts.items()]
    mask = ticket.mask
    rows.append(["**all**", str(len(mask)), f"{mask.size:,}", _percent(mask.sparsity)])
    return _table(["matrices", "how many", "weights", "sparsity"], rows)


def _results(ticket: Ticket) -> list[str]:
    summaries = _summaries(ticket.results)
    if not summaries:
        return []
    metric = ticket.results.get("metric", "score")
    rows = [
        [
            row,
            _number(summary.get("mean")),
            _number(summary.get("std")),
            _number(summary.get("median")),
            _number(summary.get("best")),
            str(summary.get("n", "")),
        ]
        for row, summary in summaries.items()
    ]
    said = "Scores on the development set at the last step; std with ddof 1 over the seeds."
    return ["## What was measured", _table([str(metric), "mean", "std", "median", "best", "n"], rows), said]


def _settings(ticket: Ticket) -> str:
    rows = [
        ["method", _method(ticket)],
        ["base model", _model(ticket.model)],
        ["fingerprint of θ0", f"`{ticket.model.get('fingerprint')}`"],
        ["starts from", _start(ticket)],
        ["identity", f"`{ticket.identity}`"],
    ]
    if ticket.parent:
        rows.append(["parent", f"`{ticket.parent}`"])
    if ticket.task:
        rows.append(["task", str(ticket.task.get("name"))])
        rows.append(["fingerprint of its data", f"`{ticket.task.get('fingerprint')}`"])
    exact = json.dumps(ticket.settings, indent=2, sort_keys=True, ensure_ascii=False)
    return f"{_table(['', ''], rows)}\n\n```json\n{exact}\n```"


def _summaries(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The rows of ``results["summary"]`` that hold a mean."""
    summary = results.get("summary")
    if not isinstance(summary, Mapping):
        return {}
    return {
        str(row): found
        for row, found in summary.items()
        if isinstance(found, Mapping) and _is_number(found.get("mean"))
    }


def _role(name: str, family: Any) -> str | None:
    """The role of a matrix by its family's own adapter; None where the family is not known."""
    known = FAMILIES.get(family) if isinstance(family, str) else None
    if known is None:
        return None
    if known.pooler and name == f"{known.pooler}.weight":
        return "pooler"
    layer = re.escape(known.layer).replace(r"\{\}", r"\d+")
    for role, path in known.matrices.items():
        if re.fullmatch(rf"{layer}\.{re.escape(path)}\.weight", name):
            return role.replace("_", " ")
    return None


def _start(ticket: Ticket) -> str:
    kind = str(ticket.start.get("kind", "pretrained"))
    return _STARTS.get(kind, kind).replace("{step}", str(ticket.start.get("step", "?")))


def _model(model: Mapping[str, Any]) -> str:
    about = [str(model["family"])] if model.get("family") else []
    about.append(f"θ0 {str(model.get('fingerprint'))[:12]}")
    revision = f" at {model['revision']}" if model.get("revision") else ""
    return f"{model.get('source') or 'unnamed'}{revision} ({', '.join(about)})"


def _method(ticket: Ticket) -> str:
    known = [
        f"{key} {ticket.settings[key]}"
        for key in ("schedule", "seed")
        if ticket.settings.get(key) is not None
    ]
    return ", ".join([ticket.method, *known])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _score(summary: Mapping[str, Any]) -> str:
    std = f" ± {summary['std']:.1f}" if _is_number(summary.get("std")) else ""
    return f"{summary['mean']:.1f}{std}" + (f", n = {summary['n']}" if summary.get("n") else "")


def _number(value: Any) -> str:
    return f"{value:.2f}" if _is_number(value) else "–"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e12


def _printable(text: str) -> str:
    """A stranger's ticket must not send control sequences to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
