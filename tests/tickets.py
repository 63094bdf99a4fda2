"""Fixed tiny tickets, without a model behind them: what the tests of tickets are about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tombola.masks.structure_mask import StructureMask
from tombola.masks.weight_mask import WeightMask
from tombola.ticket import Ticket

QUERY, POOLER = "encoder.layer.0.attention.self.query.weight", "pooler.dense.weight"


def tiny_mask() -> WeightMask:
    return WeightMask(
        {
            QUERY: torch.tensor([[True, False, True, False], [False, False, True, True]]),
            POOLER: torch.tensor([[True, True], [False, False]]),
        }
    )


def tiny_ticket(**changes: Any) -> Ticket:
    facts: dict[str, Any] = {
        "mask": tiny_mask(),
        "model": {
            "source": "prajjwal1/bert-tiny",
            "revision": "0123456789abcdef",
            "fingerprint": "a" * 64,
            "family": "bert",
            "prefix": "bert",
            "optional": [POOLER],
        },
        "task": {
            "name": "rte",
            "fingerprint": "b" * 64,
            "kind": "classification",
            "labels": ["yes", "no"],
            "metrics": ["accuracy"],
        },
        "method": "imp",
        "settings": {"schedule": "linear", "seed": 0, "recipe": {"learning_rate": 2e-5, "epochs": 3}},
        "results": {
            "metric": "accuracy",
            "seeds": [0, 1, 2],
            "summary": {
                "full": {"mean": 66.2, "std": 3.6, "median": 66.1, "best": 69.0, "n": 3},
                "ticket": {"mean": 66.0, "std": None, "median": 66.0, "best": 66.0, "n": 1},
            },
        },
        "about": {"created": "2026-01-02", "tombola": "0.1.0"},
    }
    return Ticket(**{**facts, **changes})


def rewound_ticket(**changes: Any) -> Ticket:
    state = {
        QUERY: torch.arange(8, dtype=torch.float32).reshape(2, 4) - 3.5,
        POOLER: torch.eye(2),
        "embeddings.word_embeddings.weight": torch.full((3, 2), 0.25),
        "head::classifier.weight": torch.ones(2, 2),
    }
    start = {"kind": "rewound", "step": 40}
    return tiny_ticket(**{"start": start, "start_state": state, "parent": "c" * 64, **changes})


#: A head weighs 4·8·2 = 64, an FFN 2·8·16 = 256.
TINY_SIZES = {
    "hidden": 8,
    "head_size": 2,
    "inner": 16,
    "heads": [4, 4, 4],
    "parameters": 2000,
    "encoder": 1600,
    "ffn_matrices": 2,
}


def tiny_structure() -> StructureMask:
    """Four of twelve heads and one of three FFNs are gone: 4·64 + 256 = 512 weights."""
    return StructureMask(
        ((True, True, False, True), (True,) * 4, (False, False, False, True)), (True, False, True)
    )


def structured_ticket(**changes: Any) -> Ticket:
    """A super ticket of five seeds, with all that such a search says."""
    summary = {
        "full": {"mean": 69.2, "std": 1.4, "median": 69.1, "best": 71.0, "n": 5},
        "ticket": {"mean": 72.5, "std": 1.1, "median": 72.4, "best": 74.0, "n": 5},
    }
    rest = {
        "full": {"mean": 69.0, "std": 1.5, "median": 69.0, "best": 70.9, "n": 5},
        "ticket": {"mean": 71.75, "std": 1.2, "median": 71.8, "best": 73.3, "n": 5},
    }
    point = {"level": 0.3, "heads_removed": 4, "ffns_removed": 1, "remaining": 0.744}
    facts: dict[str, Any] = {
        "mask": tiny_structure(),
        "model": {**tiny_ticket().model, "optional": [], "sizes": TINY_SIZES},
        "method": "super",
        "settings": {"seed": 0, "recipe": {"learning_rate": 1e-4, "epochs": 6}},
        "results": {
            "metric": "accuracy",
            "seeds": [0, 1, 2, 3, 4],
            "own_search_per_seed": True,
            "levels": [0.3, 0.1, 0.3, 0.2, 0.3],
            "summary": summary,
            "rest_summary": rest,
            "curve": [{**point, "mean": 72.1, "std": 1.3, "n": 5}],
        },
    }
    return tiny_ticket(**{**facts, **changes})


def tiny_latency() -> dict[str, Any]:
    """What a LatencyTable of one shape says, as far as a ticket shows it."""
    models = {"full": {"median": 0.04}, "ticket": {"median": 0.03}}
    place = {"device": "cpu", "device_name": "Some CPU", "threads": 1, "precision": "fp32"}
    return {"surroundings": place, "cells": [{"batch": 1, "length": 128, "models": models}]}


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit ticket.json as somebody with an editor would."""
    described = json.loads((folder / "ticket.json").read_text())
    edit(described)
    (folder / "ticket.json").write_text(json.dumps(described))


def name_again(folder: Path, name: str) -> None:
    """Give ticket.json the right size and hash of a file, as somebody who tampers on purpose would."""
    content = (folder / name).read_bytes()
    entry = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    change(folder, lambda described: described["files"].update({name: entry}))
