"""What a block and a card say of a structured ticket: which heads and FFNs are left, how small, how chosen, how fast.

Everything in ``results`` and ``about`` may have been written by anybody: what has not the form that tombola writes
is left out, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tombola.ticket_text import Words, is_number, labels_of, number, percent, score, summaries, table

if TYPE_CHECKING:
    from tombola.masks.structure_mask import StructureMask
    from tombola.ticket import Ticket

#: Larger pictures tell a reader nothing more.
DRAWN_LAYERS, DRAWN_HEADS = 64, 64
KEPT, GONE = "■", "□"
WHAT = (
    "A *structured lottery ticket* (a *super ticket*, where it beats the whole model) says which attention heads and "
    "feed-forward networks (FFNs) of a pre-trained model are kept: without the others, from its pre-trained "
    "weights, it is trained as the whole model would be."
)
SMALLER = (
    "The removed heads and FFNs are not zeros but gone: the model has smaller matrices and fewer of them, on any "
    "hardware and with any kernels."
)
NOT_MEASURED = (
    "How much faster it is has not been measured here; `tombola bench` measures it where it will run."
)
MEASURED = "Median latency, as whoever made the ticket measured it (no hash covers these figures):"
WHICH = (
    "*Of the model* is the share of all parameters of the pre-trained model, embeddings included, as the paper prints "
    "it; *of the encoder* counts its layers alone. Biases and layer norms are not counted as removed. {kept} a part "
    "that is kept, {gone} one that is gone; an attention's output bias stays even where all its heads are gone."
)
CHOSEN_ON = (
    "The level was chosen by the score on a seeded share of the development set. *The rest* leaves these examples "
    "out, so that nothing was chosen on it; *all of dev* includes them."
)


def structure_words(ticket: Ticket) -> Words:
    """Of a ticket whose mask is a StructureMask."""
    latency, where = _latency(ticket.about), _where(ticket.about)
    chosen = _chosen(ticket)
    count = labels_of(ticket.task)
    return Words(
        headline=" · ".join([*summary_parts(ticket), *_dev(ticket.results)]),
        below=(),
        measured=(
            *((chosen,) if chosen else ()),
            *_rest_lines(ticket.results),
            *_latency_lines(latency, where),
        ),
        picture=(
            "load    model = tombola.load(folder), where it brings its trained model",
            *picture(ticket.structure),
        ),
        what=WHAT,
        load_trained=(
            'model = tombola.load("this-folder-or-repository")   # trained and physically smaller',
            "",
        ),
        train=(
            f"start = ticket.model(num_labels={count})   # smaller too, a fresh head: to be trained, with any trainer",
        ),
        speed=" ".join([SMALLER, *(() if latency else (NOT_MEASURED,))]),
        section=(
            "## What is kept",
            _sizes_table(ticket),
            WHICH.format(kept=KEPT, gone=GONE),
            *_latency_section(latency, where),
        ),
        results=(*_rest_section(ticket.results), *_curve_section(ticket.results)),
    )


def summary_parts(ticket: Ticket) -> tuple[str, str]:
    """``12 layers · heads 116/144 · FFN 10/12`` and ``86.0 % of the model (83.0 % of the encoder)``."""
    shares = f"{percent(ticket.remaining_weight)} of the model ({percent(ticket.remaining_of_encoder)} of the encoder)"
    return str(ticket.structure), shares


def picture(mask: StructureMask) -> list[str]:
    """A row a layer: its heads, then its FFN."""
    width = max(len("heads"), *(min(len(row), DRAWN_HEADS) for row in mask.heads))
    lines = [f"layer  {'heads':{width}}  FFN"]
    for layer, (row, ffn) in enumerate(zip(mask.heads, mask.ffns, strict=True)):
        if layer == DRAWN_LAYERS:
            lines.append(f"    …  {mask.layers - layer} more layers")
            break
        heads = "".join(_square(kept) for kept in row[:DRAWN_HEADS])
        lines.append(f"{layer:5}  {heads:{width}}  {_square(ffn)}")
    return lines


def _square(kept: bool) -> str:
    return KEPT if kept else GONE


# --- results ------------------------------------------------------------


def _dev(results: Mapping[str, Any]) -> list[str]:
    """``dev 72.5 ± 1.1, n = 5 (full 69.2 ± 1.4)``."""
    found = summaries(results)
    if "ticket" not in found:
        return []
    full = f" (full {score({**found['full'], 'n': None})})" if "full" in found else ""
    return [f"dev {score(found['ticket'])}{full}"]


def _rest_lines(results: Mapping[str, Any]) -> list[str]:
    metric = results.get("metric", "score")
    return [
        f"{row:7} {metric} {score(summary)}, without the examples the level was chosen on"
        for row, summary in summaries(results, "rest_summary").items()
    ]


def _chosen(ticket: Ticket) -> str | None:
    """The level of this mask, which is the first seed's, and those of the other seeds."""
    levels = ticket.results.get("levels")
    if not isinstance(levels, list) or not levels or not all(_is_share(level) for level in levels):
        return None
    others = f" (the seeds chose {', '.join(_level(level) for level in levels)})" if len(levels) > 1 else ""
    return f"level   {_level(levels[0])}, chosen on a seeded share of the development set{others}"


def _rest_section(results: Mapping[str, Any]) -> list[str]:
    """The same rows on all of dev and without the examples of the choice, side by side."""
    everything, rest = summaries(results), summaries(results, "rest_summary")
    if not rest:
        return []
    rows = [
        [row, _mean_and_std(everything.get(row, {})), _mean_and_std(rest[row]), str(rest[row].get("n", ""))]
        for row in rest
    ]
    metric = results.get("metric", "score")
    return [table([str(metric), "all of dev", "the rest of dev", "n"], rows), CHOSEN_ON]


def _curve_section(results: Mapping[str, Any]) -> list[str]:
    """Score against what is left, level by level."""
    curve = results.get("curve")
    points = [point for point in curve if _is_point(point)] if isinstance(curve, list) else []
    if not points:
        return []
    rows = [
        [
            _level(point["level"]) if point["level"] else "0 (full)",
            f"{point['heads_removed']}, {point['ffns_removed']}",
            percent(point["remaining"]),
            _mean_and_std(point),
            str(point.get("n", "")),
        ]
        for point in points
    ]
    head = ["level", "heads, FFNs removed", "of the model", "score on dev", "n"]
    return ["## Level by level", table(head, rows)]


def _is_point(point: Any) -> bool:
    return (
        isinstance(point, Mapping)
        and _is_share(point.get("level"))
        and _is_share(point.get("remaining"))
        and all(type(point.get(key)) is int for key in ("heads_removed", "ffns_removed"))
        and is_number(point.get("mean"))
    )


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _level(level: float) -> str:
    return f"{100 * level:g} %"


def _mean_and_std(summary: Mapping[str, Any]) -> str:
    std = f" ± {number(summary['std'])}" if is_number(summary.get("std")) else ""
    return f"{number(summary.get('mean'))}{std}"


# --- sizes and latency ----------------------------------------------------


def _sizes_table(ticket: Ticket) -> str:
    mask = ticket.structure
    rows = [
        ["layers", str(mask.layers), ""],
        [
            "attention heads",
            f"{mask.heads_kept} of {mask.head_count}",
            percent(mask.heads_kept / mask.head_count),
        ],
        ["FFNs", f"{mask.ffns_kept} of {mask.ffn_count}", percent(mask.ffns_kept / mask.ffn_count)],
        ["weight of the model", "", percent(ticket.remaining_weight)],
        ["weight of the encoder", "", percent(ticket.remaining_of_encoder)],
    ]
    return table(["part", "kept", "share"], rows)


@dataclass(frozen=True)
class _Cell:
    """Medians of the full model and the ticket on batches of one shape, in milliseconds."""

    batch: int
    length: int
    full: float
    ticket: float


def _latency(about: Mapping[str, Any]) -> list[_Cell]:
    """The cells of ``about["latency"]`` (a LatencyTable as JSON) that measure the ticket beside the full model."""
    latency = about.get("latency")
    cells = latency.get("cells") if isinstance(latency, Mapping) else None
    found = []
    for cell in cells if isinstance(cells, list) else []:
        medians = [_median(cell, name) for name in ("full", "ticket")]
        if all(medians) and all(type(cell.get(key)) is int for key in ("batch", "length")):
            found.append(_Cell(cell["batch"], cell["length"], 1000 * medians[0], 1000 * medians[1]))
    return found


def _median(cell: Any, name: str) -> float:
    """Seconds; 0 where there is no such number."""
    models = cell.get("models") if isinstance(cell, Mapping) else None
    timing = models.get(name) if isinstance(models, Mapping) else None
    median = timing.get("median") if isinstance(timing, Mapping) else None
    return max(float(median), 0.0) if is_number(median) else 0.0


def _where(about: Mapping[str, Any]) -> str:
    """``cpu (name), 1 thread, fp32``."""
    latency = about.get("latency")
    place = latency.get("surroundings") if isinstance(latency, Mapping) else None
    if not isinstance(place, Mapping):
        return "machine not told"
    device, name, threads, precision = (
        place.get(key) for key in ("device", "device_name", "threads", "precision")
    )
    return f"{device} ({name}), threads {threads}, {precision}"


def _latency_lines(latency: list[_Cell], where: str) -> list[str]:
    """The table in words, smallest batch first as it was measured."""
    lines = [
        f"latency batch {cell.batch} × {cell.length} tokens: {cell.ticket:.1f} ms, full {cell.full:.1f} ms, "
        f"ratio {cell.ticket / cell.full:.2f}"
        for cell in latency
    ]
    return [*lines, f"        on {where}"] if lines else []


def _latency_section(latency: list[_Cell], where: str) -> list[str]:
    if not latency:
        return []
    rows = [
        [
            str(cell.batch),
            str(cell.length),
            f"{cell.full:.1f} ms",
            f"{cell.ticket:.1f} ms",
            f"{cell.ticket / cell.full:.2f}",
        ]
        for cell in latency
    ]
    head = ["batch", "length", "full model", "ticket", "ratio"]
    return ["## How fast it is", f"{MEASURED} {where}.", table(head, rows)]
