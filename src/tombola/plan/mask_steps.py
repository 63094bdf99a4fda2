"""Steps that make a mask: prune by a score, draw at random, bring one in from a ticket's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tombola import files
from tombola.errors import CorruptArtifact
from tombola.masks.packing import load_mask, save_mask
from tombola.masks.selection import lowest_pruned
from tombola.masks.weight_mask import WeightMask
from tombola.plan.materials import model_source
from tombola.plan.structures import STRUCTURE
from tombola.plan.workplace import Workplace
from tombola.scores.magnitude import magnitude
from tombola.streams import generator

SCORES = {"magnitude": magnitude}


def prune(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """m <- m without the lowest scores among the kept, globally, exactly ``zeros`` zeros in all."""
    if "weights" in inputs:
        state = files.read_tensors(inputs["weights"])
    else:
        from tombola.models.build import pretrained_state

        state = pretrained_state(model_source(sources["model"], parameters["model"]["fingerprint"]))
    scores = SCORES[parameters["score"]](state, list(parameters["shapes"]))
    within = load_mask(inputs["within"]) if "within" in inputs else None
    _put_out(lowest_pruned(scores, parameters["zeros"], within), parameters["shapes"], work)


def random_mask(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """A uniformly random mask of exact size, over all weights or inside each tensor."""
    stream = generator(parameters["seed"], "random_mask", parameters["scope"])
    if "like" in inputs:
        pattern = load_mask(inputs["like"])
    else:
        pattern = _first_zeros(parameters["shapes"], parameters["zeros"], parameters["scope"])
    _put_out(pattern.random_like(stream, scope=parameters["scope"]), parameters["shapes"], work)


def import_ticket(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """The mask (and θi, if any) of a ticket whose identity is part of this step's."""
    from tombola.ticket import Ticket

    ticket = Ticket.from_pretrained(sources["ticket"], revision=sources.get("revision"))
    if ticket.identity != parameters["ticket"]:
        raise CorruptArtifact(
            f"the folder holds another ticket ({ticket.identity[:12]}) than planned ({parameters['ticket'][:12]})",
            where=str(sources["ticket"]),
            todo="run the command again",
        )
    if ticket.is_structured:
        ticket.structure.check_against(parameters["heads_per_layer"], where=str(sources["ticket"]))
        work.write_json(STRUCTURE, ticket.structure.to_json())
        return
    _put_out(ticket.weight_mask, parameters["shapes"], work)
    if ticket.start_state is not None:
        work.write_tensors("start.safetensors", ticket.start_state)


def _put_out(mask: WeightMask, shapes: Mapping[str, Any], work: Workplace) -> None:
    mask.check_against({name: tuple(shape) for name, shape in shapes.items()})
    save_mask(work.adopt("mask.safetensors"), mask)
    work.write_json(
        "mask.json",
        {
            "digest": mask.digest(),
            "size": mask.size,
            "zeros": mask.zeros,
            "sparsity": mask.sparsity,
            "sparsity_per_tensor": {name: mask.sparsity_of(name) for name in mask.names},
        },
    )


def _first_zeros(shapes: Mapping[str, Any], zeros: int, scope: str) -> WeightMask:
    """Any mask with that many zeros, as the pattern to draw from; ``layer`` gives each tensor its even share."""
    sizes = {name: torch.Size(shape).numel() for name, shape in shapes.items()}
    total = sum(sizes.values())
    entries, used, passed = {}, 0, 0
    for name, size in sizes.items():
        passed += size
        # Cumulative rounding: the shares of all tensors add up to exactly `zeros`.
        share = (zeros * passed + total // 2) // total - used if scope == "layer" else min(size, zeros - used)
        used += share
        flat = torch.ones(size, dtype=torch.bool)
        flat[:share] = False
        entries[name] = flat.reshape(tuple(shapes[name]))
    return WeightMask(entries)
