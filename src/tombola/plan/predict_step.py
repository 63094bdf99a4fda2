"""The step that answers a benchmark's test set with the weights of a finished training (Super tickets, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tombola.errors import DataError
from tombola.plan.materials import encoded_split, model_source, task_data
from tombola.plan.structures import load_structure
from tombola.plan.workplace import Workplace


def predict(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """Logits of every split, and ``answers.json``: the class (its position) or the number for every example."""
    import torch

    from tombola.plan.train_step import with_weights
    from tombola.training.loop import evaluate
    from tombola.training.recipe import Numerics

    data = task_data(sources["task"], parameters["task"]["fingerprint"])
    source = model_source(sources["model"], parameters["model"]["fingerprint"])
    numerics = Numerics.from_json(parameters["numerics"])
    mask = load_structure(inputs["structure"]) if "structure" in inputs else None
    model = with_weights(source, parameters["task"], numerics.attention, inputs["weights"], mask)
    logits: dict[str, torch.Tensor] = {}
    for split, fingerprint in parameters["splits"].items():
        found = data.extra.get(split)
        if found is None or found.fingerprint != fingerprint:
            raise DataError(
                f"the split {split} is not the one the plan was made with",
                where=str(sources["task"]["data_dir"] or sources["task"]["name"]),
                todo="the files changed since the plan was made: plan again",
            )
        encoded = encoded_split(sources, split, parameters["max_length"])
        logits[split] = torch.from_numpy(evaluate(model, encoded, numerics))
    classes = parameters["task"]["kind"] == "classification"
    answers = {
        split: (found.argmax(dim=1) if classes else found.reshape(-1)).tolist()
        for split, found in logits.items()
    }
    work.write_tensors("predictions.safetensors", logits)
    work.write_json("answers.json", answers)
