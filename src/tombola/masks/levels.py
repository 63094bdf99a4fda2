"""Tickets of whole parts at a level p: how many heads and FFNs go, and which (Super tickets, SPEC 3.3).

Winning, losing and random tickets take parts from one order each, the same way: a head that is the last of its
layer stays and the next in the order goes instead, so totals are exact. No choice depends on how many are still
to go, so tickets of one order are nested. FFNs have an order of their own and no such protection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

from tombola.errors import MaskMismatch, RecipeError, nearest
from tombola.masks.structure_mask import StructureMask
from tombola.streams import derive

#: The eight levels of the paper.
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
KINDS = ("winning", "losing")


def heads_removed_at(level: float, heads: int) -> int:
    """⌊p·H⌋ of all ``heads`` of the model, p being the decimal number as it is written (0.7 of 10 is 7)."""
    return math.floor(_decimal(level) * heads)


def ffns_removed_at(level: float, layers: int, rule: str = "floor") -> int:
    """How many of the ``layers`` FFNs go: ``floor`` is the text's same percentage, ``authors`` their code's."""
    if rule not in FFN_RULES:
        raise RecipeError(
            f"no rule for FFNs is called '{rule}'", where="ffn_rule", todo=nearest(rule, tuple(FFN_RULES))
        )
    return FFN_RULES[rule](_decimal(level), layers)


def chosen(
    kind: str,
    head_scores: Sequence[Sequence[float]],
    ffn_scores: Sequence[float],
    *,
    heads: int,
    ffns: int,
) -> StructureMask:
    """The ticket without ``heads`` heads and ``ffns`` FFNs, by one ranking of all heads and one of all FFNs.

    ``winning`` removes the lowest scores first, ``losing`` the highest. Scores are taken as given. Among equal
    scores the earlier position counts as lower, so that the losing order is the winning one backwards.
    """
    if kind not in KINDS:
        raise RecipeError(f"no ticket is called '{kind}'", where="kind", todo=nearest(kind, KINDS))
    if len(head_scores) != len(ffn_scores):
        raise MaskMismatch(
            f"there are scores of heads for {len(head_scores)} layers and of FFNs for {len(ffn_scores)}",
            where="ffn_scores",
            todo="give one FFN score a layer",
        )
    full = StructureMask.full([len(row) for row in head_scores])
    score_of_head = {
        (layer, head): _score(value, f"layer {layer}, head {head}")
        for layer, row in enumerate(head_scores)
        for head, value in enumerate(row)
    }
    score_of_ffn = {layer: _score(value, f"layer {layer}, FFN") for layer, value in enumerate(ffn_scores)}
    head_order = sorted(score_of_head, key=lambda part: (score_of_head[part], part))
    ffn_order = sorted(score_of_ffn, key=lambda layer: (score_of_ffn[layer], layer))
    if kind == "losing":
        head_order.reverse()
        ffn_order.reverse()
    return _without_first(full, head_order, ffn_order, heads=heads, ffns=ffns)


def drawn(heads_per_layer: Sequence[int], *, heads: int, ffns: int, seed: int) -> StructureMask:
    """The random ticket without ``heads`` heads and ``ffns`` FFNs: uniform, without replacement, exact.

    The order of all parts is that of a hash of the seed and the part: every order is equally likely, and it is
    the same with any version of Python and for every count.
    """
    full = StructureMask.full(heads_per_layer)
    every_head = [(layer, head) for layer, count in enumerate(heads_per_layer) for head in range(count)]
    head_order = sorted(every_head, key=lambda part: (derive(seed, "random ticket", "head", *part), part))
    ffn_order = sorted(
        range(full.layers), key=lambda layer: (derive(seed, "random ticket", "ffn", layer), layer)
    )
    return _without_first(full, head_order, ffn_order, heads=heads, ffns=ffns)


def _without_first(
    full: StructureMask,
    head_order: Sequence[tuple[int, int]],
    ffn_order: Sequence[int],
    *,
    heads: int,
    ffns: int,
) -> StructureMask:
    """``full`` without the first ``heads`` and ``ffns`` of the orders, passing over the last head of a layer."""
    _check_count(heads, full.head_count - full.layers, "heads", "at least one head a layer stays")
    _check_count(ffns, full.ffn_count, "ffns", "there is one FFN a layer")
    left = list(full.heads_per_layer)
    removed: set[tuple[int, int]] = set()
    for layer, head in head_order:
        if len(removed) == heads:
            break
        if left[layer] > 1:
            left[layer] -= 1
            removed.add((layer, head))
    without_ffn = set(ffn_order[:ffns])
    return StructureMask(
        tuple(
            tuple((layer, head) not in removed for head in range(count))
            for layer, count in enumerate(full.heads_per_layer)
        ),
        tuple(layer not in without_ffn for layer in range(full.layers)),
    )


def _decimal(level: float) -> Fraction:
    """The level as it is written: the binary fraction behind 0.7 is a little less than seven tenths."""
    if not (math.isfinite(level) and 0 < level < 1):
        raise RecipeError(
            f"a level of {level} leaves everything or nothing, or is no share",
            where="level",
            todo="give a share between 0 and 1, both excluded: 0.1 for 10 %",
        )
    return Fraction(Decimal(repr(float(level))))


def _by_floor(level: Fraction, layers: int) -> int:
    return math.floor(level * layers)


def _by_authors(level: Fraction, layers: int) -> int:
    """One FFN every 10 % of a base model's 12 layers, one every 5 % of a large model's 24."""
    if layers not in AUTHORS_GRID:
        raise RecipeError(
            f"the authors' rule says nothing about {layers} layers",
            where="ffn_rule",
            todo=f"it is known for {' and '.join(map(str, AUTHORS_GRID))} layers; use 'floor'",
        )
    count = level * AUTHORS_GRID[layers]
    if count.denominator != 1:
        raise RecipeError(
            f"a level of {float(level)} is not on the authors' grid for {layers} layers",
            where="level",
            todo=f"give a multiple of {1 / AUTHORS_GRID[layers]}, or use ffn_rule 'floor'",
        )
    return int(count)


#: Layers -> steps of the authors' grid, each of which takes one FFN.
AUTHORS_GRID = {12: 10, 24: 20}
#: The one registry of rules for FFNs.
FFN_RULES: dict[str, Callable[[Fraction, int], int]] = {"floor": _by_floor, "authors": _by_authors}


def _score(value: float, where: str) -> float:
    score = float(value)
    if not math.isfinite(score):
        raise MaskMismatch(
            f"a score of {score} has no place in a ranking",
            where=where,
            todo="look for a training that diverged, or for a loss that is not a number",
        )
    return score


def _check_count(count: int, most: int, where: str, why: str) -> None:
    if type(count) is not int or not 0 <= count <= most:
        raise RecipeError(
            f"{count} {where} cannot be removed: {most} can, for {why}",
            where=where,
            todo="choose a lower level" if isinstance(count, int) and count > most else "give a whole number",
        )
