"""Fixed tiny tickets, without a model behind them: what the tests of tickets are about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

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
