"""What people read about a ticket: the block that ``print(ticket)`` shows, and its folder's model card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tombola.masks.structure_mask import StructureMask
from tombola.ticket_structure_words import structure_words
from tombola.ticket_text import number, printable, score, summaries, table
from tombola.ticket_weight_words import weight_words

if TYPE_CHECKING:
    from tombola.ticket import Ticket
    from tombola.ticket_text import Words

_STARTS = {
    "pretrained": "the pre-trained weights θ0",
    "rewound": "θi, the weights after {step} steps of training (start.safetensors)",
    "trained": "the weights at the end of training, not rewound (start.safetensors)",
}


def block(ticket: Ticket) -> str:
    """One readable block, a fact a line."""
    words, model = _words(ticket), ticket.model
    lines = [f"Ticket {ticket.identity[:12]}: {words.headline}"]
    lines += [f"  {line}" for line in words.below]
    lines.append(f"  model   {_model(model)}")
    if ticket.task:
        lines.append(f"  task    {ticket.task.get('name')}")
    lines.append(f"  method  {_method(ticket)}")
    lines.append(f"  starts  from {_start(ticket)}")
    metric = ticket.results.get("metric", "score")
    for row, summary in summaries(ticket.results).items():
        lines.append(f"  {row:7} {metric} {score(summary)}")
    lines += [f"  {line}" for line in words.measured]
    if said := _seeds(ticket.results):
        lines.append(f"  {said}")
    lines += [f"  {line}" for line in words.picture]
    return "\n".join(printable(line) for line in lines)


def card(ticket: Ticket, *, license: str | None, has_model: bool) -> str:
    """README.md: front matter for the hub, then what the ticket is, how to load it, and what was measured."""
    task = ticket.task or {}
    source = str(ticket.model.get("source") or "unnamed model")
    words = _words(ticket)
    title = f"A lottery ticket in {source}" + (f" for {task['name']}" if task.get("name") else "")
    parts = [
        _front_matter(ticket, license),
        f"# {title}",
        f"```text\n{block(ticket)}\n```",
        f"{words.what} This repository holds the mask; the weights come from `{source}`, which is checked to be "
        "the same, bit for bit.",
        "## How to use it",
        _usage(words, has_model),
        words.speed,
        *words.section,
        *_results(ticket),
        *words.results,
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


def _usage(words: Words, has_model: bool) -> str:
    lines = [
        "import tombola",
        "",
        *(words.load_trained if has_model else ()),
        'ticket = tombola.Ticket.from_pretrained("this-folder-or-repository")',
        *words.train,
    ]
    return "```python\n" + "\n".join(lines) + "\n```"


def _results(ticket: Ticket) -> list[str]:
    found = summaries(ticket.results)
    if not found:
        return []
    metric = ticket.results.get("metric", "score")
    rows = [
        [
            row,
            number(summary.get("mean")),
            number(summary.get("std")),
            number(summary.get("median")),
            number(summary.get("best")),
            str(summary.get("n", "")),
        ]
        for row, summary in found.items()
    ]
    recipe = ticket.settings.get("recipe")
    stopped = isinstance(recipe, Mapping) and recipe.get("early_stopping")
    when = "of the epoch that early stopping kept" if stopped else "at the last step"
    said = [f"Scores on the development set {when}; std with ddof 1 over the seeds."]
    if spread := _seeds(ticket.results):
        said.append(f"{spread[0].upper()}{spread[1:]}.")
    head = [str(metric), "mean", "std", "median", "best", "n"]
    return ["## What was measured", table(head, rows), " ".join(said)]


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
    return f"{table(['', ''], rows)}\n\n```json\n{exact}\n```"


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


def _seeds(results: Mapping[str, Any]) -> str | None:
    """Whose standard deviation it is: of whole searches, or of one fixed mask (SPEC 1)."""
    seeds, own = results.get("seeds"), results.get("own_search_per_seed")
    if not isinstance(seeds, list) or len(seeds) < 2 or not isinstance(own, bool):
        return None
    listed = ", ".join(map(str, seeds))
    if own:
        return f"a whole search per seed ({listed}); this is the mask of seed {seeds[0]}"
    return f"one fixed mask retrained with every seed ({listed}): not the spread of whole searches"


def _words(ticket: Ticket) -> Words:
    return structure_words(ticket) if isinstance(ticket.mask, StructureMask) else weight_words(ticket)
