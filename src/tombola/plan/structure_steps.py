"""Steps of super tickets: score heads and FFNs, keep the best or draw at random, choose a level (SPEC 3.1–3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tombola import files
from tombola.errors import DataError
from tombola.masks.levels import chosen, drawn
from tombola.masks.structure_mask import StructureMask
from tombola.plan.materials import encoded_split, model_source, task_data
from tombola.plan.structures import STRUCTURE
from tombola.plan.workplace import Workplace


def importance(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """I = E_x |∂L(x)/∂gate| over the training set, in evaluation mode, in one pass."""
    from tombola.plan.train_step import with_weights
    from tombola.scores.importance import importance as importance_of
    from tombola.training.recipe import Numerics

    task_data(sources["task"], parameters["task"]["fingerprint"])
    source = model_source(sources["model"], parameters["model"]["fingerprint"])
    numerics = Numerics.from_json(parameters["numerics"])
    model = with_weights(source, parameters["task"], numerics.attention, inputs["weights"])
    found = importance_of(
        model,
        encoded_split(sources, "train", parameters["max_length"]),
        numerics,
        granularity=parameters["granularity"],
        batch_size=parameters["batch_size"],
    )
    work.write_json("importance.json", found.to_json())


def structure(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """Keep the parts with the highest scores (``winning``) or with the lowest (``losing``), exact counts."""
    from tombola.scores.importance import Importance

    scores = Importance.from_json(files.read_json(inputs["importance"]))
    found = chosen(
        parameters["kept"],
        scores.normalised_heads(),
        scores.ffns,
        heads=parameters["heads"],
        ffns=parameters["ffns"],
    )
    _put_out(found, parameters, work)


def random_structure(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """Parts drawn uniformly without replacement, exact counts."""
    found = drawn(
        parameters["heads_per_layer"],
        heads=parameters["heads"],
        ffns=parameters["ffns"],
        seed=parameters["seed"],
    )
    _put_out(found, parameters, work)


def choose_level(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """Every level's scores on the chosen share of dev, on the rest, and on all of it; and the level that is best."""
    from tombola.tasks.metrics import score
    from tombola.tasks.splitting import selection_share

    task_data(sources["task"], parameters["task"]["fingerprint"])
    targets = encoded_split(sources, "dev", sources["max_length"]).targets
    if targets is None:
        raise DataError(
            "the development set has no labels to choose a level by", where=sources["task"]["name"]
        )
    share, rest = selection_share(len(targets), parameters["share"], parameters["seed"])
    levels: dict[str, Any] = {}
    for level, path in inputs.items():
        logits = files.read_tensors(path)["dev"].numpy()
        levels[level] = {
            part: score(parameters["task"]["metrics"], logits[which], targets[which])
            for part, which in (("share", share), ("rest", rest), ("dev", slice(None)))
        }
    able = [level for level in levels if parameters["include_full"] or float(level) > 0]
    best = max(able, key=lambda level: (_mean(levels[level]["share"]), -parameters["levels"][level]))
    work.write_json(
        "choice.json", {"levels": levels, "chosen": float(best), "examples": [len(share), len(rest)]}
    )


def _mean(scores: Mapping[str, float]) -> float:
    """The score of a task with several metrics (SPEC 3.3); rounded, so that ties in print are ties."""
    return round(sum(scores.values()) / len(scores), 9)


def _put_out(found: StructureMask, parameters: Mapping[str, Any], work: Workplace) -> None:
    found.check_against(parameters["heads_per_layer"])
    work.write_json(STRUCTURE, found.to_json())
