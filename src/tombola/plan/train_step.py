"""The training step: start weights, mask, recipe and seed in; scores on the development set at the last step out.

Outputs: ``metrics.json``, ``metrics.jsonl`` and ``predictions.safetensors`` are kept. ``weights.safetensors`` and
``state-<i>.safetensors`` (θi with optimizer and place in the schedule) are transient, made only when somebody waits
for them. Asking for them never changes what is trained, so they are no part of the identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola import files
from tombola.errors import DataError
from tombola.masks.packing import load_mask
from tombola.masks.weight_mask import WeightMask
from tombola.plan.materials import encoded_split, model_source, task_data
from tombola.plan.stopping_scores import stopping_of, stopping_scores
from tombola.plan.structures import load_structure
from tombola.plan.workplace import Workplace
from tombola.streams import derive
from tombola.training.recipe import Numerics, Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from tombola.masks.structure_mask import StructureMask
    from tombola.models.anatomy import Anatomy
    from tombola.models.resolve import ModelSource
    from tombola.plan.step import Step
    from tombola.training.state import TrainingState

#: Marks the task head's tensors in a weights file; everything else is named relative to the backbone.
HEAD = "head::"
STATE_PARTS = ("model", "optimizer", "sparsity")
SECONDS_BETWEEN_CHECKPOINTS = 60.0


def train(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any], work: Workplace
) -> None:
    """Train f(m⊙start, γ), score it, write what is wanted."""
    from tombola.training.loop import train as train_loop
    from tombola.training.sparsity import Dense, FixedMask

    recipe = Recipe.from_json(parameters["recipe"])
    numerics = Numerics.from_json(parameters["numerics"])
    task_data(sources["task"], parameters["task"]["fingerprint"])
    train_set = encoded_split(sources, "train", recipe.max_length)
    model = starting_model(parameters, inputs, sources)
    mask = load_mask(inputs["mask"]) if "mask" in inputs else None
    total = recipe.total_steps(len(train_set))
    snapshots = {name: _step_of(name) for name in work.wanted if name.startswith("state-")}
    steps_here = 0

    def counted(done: int, total: int, seconds: float) -> None:
        nonlocal steps_here
        steps_here += 1
        if work.progress:
            work.progress(done, total, seconds)

    result = train_loop(
        model,
        train_set,
        recipe,
        numerics,
        seed=parameters["seed"],
        purpose=parameters["purpose"],
        sparsity=FixedMask(mask) if mask is not None else Dense(),
        snapshots=tuple(sorted(set(snapshots.values()))),
        on_snapshot=lambda state: _write_states(state, snapshots, work),
        resume_from=_state(parameters, inputs, total),
        first_step=parameters["start"]["first_step"],
        checkpoint_folder=work.scratch / "checkpoints",
        checkpoint_every_seconds=SECONDS_BETWEEN_CHECKPOINTS,
        progress=counted,
        stopping=stopping_of(parameters, sources),
    )
    _put_out(parameters, sources, model, mask, result, work)
    # Of this process only: after a kill an earlier one has made the first steps.
    work.timing.update({"training_seconds": result.seconds, "optimizer_steps": steps_here})


def starting_model(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any]
) -> PreTrainedModel:
    """The model as the training finds it: whole, or without the parts that its structure removes."""
    model = whole_model(parameters, inputs, sources)
    if "structure" in inputs:
        from tombola.models.surgery import shrink

        # Tickets always train as the smaller model: never a masked forward.
        shrink(model, load_structure(inputs["structure"]))
    return model


def whole_model(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any]
) -> PreTrainedModel:
    """Backbone by the kind of start, task head by seed and purpose."""
    from tombola.models.anatomy import anatomy_of
    from tombola.models.build import HeadSpec, build_model, pretrained_state
    from tombola.models.starts import shuffled

    source = model_source(sources["model"], parameters["model"]["fingerprint"])
    start, seed = parameters["start"], parameters["seed"]
    dropout = parameters["recipe"].get("head_dropout")
    head = HeadSpec(parameters["task"]["kind"], parameters["task"]["outputs"], dropout)
    attention = parameters["numerics"]["attention"]
    # γ of a search is γ0 of its seed; an evaluation draws a head of its own (SPEC 2.2).
    head_seed = derive(seed, parameters["purpose"], "head")
    if start["kind"] == "reinit":
        return build_model(
            source,
            head,
            head_seed=head_seed,
            attention=attention,
            reinit_seed=derive(start["seed"], "reinit"),
        )
    if start["kind"].startswith("shuffled"):
        how = "layers" if start["kind"] == "shuffled_layers" else "within"
        plain = build_model(source, head, head_seed=head_seed, attention=attention)
        state = shuffled(
            pretrained_state(source), anatomy_of(plain), derive(start["seed"], "shuffle"), how=how
        )
        return build_model(source, head, start=state, head_seed=head_seed, attention=attention)
    if start["kind"] == "weights":
        tensors = files.read_tensors(inputs["start"])
        backbone = {name: tensor for name, tensor in tensors.items() if not name.startswith(HEAD)}
        model = build_model(source, head, start=backbone, head_seed=head_seed, attention=attention)
        if start["head"] == "kept":
            _load_head(model, tensors)
        return model
    return build_model(source, head, head_seed=head_seed, attention=attention)


def weights_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """Every parameter by its portable name: relative to the backbone, or marked as the task head's."""
    from tombola.models.anatomy import backbone_parameters, head_parameters, snapshot

    head = {f"{HEAD}{name}": weight for name, weight in head_parameters(model).items()}
    return snapshot({**backbone_parameters(model), **head})


def trained_model(step: Step, weights: Path, structure: Path | None = None) -> PreTrainedModel:
    """A finished training's model: its class and head with the weights that it left, smaller if it was."""
    parameters = step.parameters
    source = model_source(step.sources["model"], parameters["model"]["fingerprint"])
    mask = None if structure is None else load_structure(structure)
    dropout = parameters["recipe"].get("head_dropout")
    return with_weights(source, parameters["task"], "sdpa", weights, mask, dropout).eval()


def with_weights(
    source: ModelSource,
    task: Mapping[str, Any],
    attention: str,
    weights: Path,
    mask: StructureMask | None = None,
    head_dropout: float | None = None,
) -> PreTrainedModel:
    """The task's model class with the weights of a file that a training wrote."""
    from tombola.models.anatomy import backbone_parameters
    from tombola.models.build import HeadSpec, build_model

    tensors = files.read_tensors(weights)
    backbone = {name: tensor for name, tensor in tensors.items() if not name.startswith(HEAD)}
    head = HeadSpec(task["kind"], task["outputs"], head_dropout)
    if mask is None:
        model = build_model(source, head, start=backbone, head_seed=0, attention=attention)  # type: ignore[arg-type]
    else:
        from tombola.models.deployed import smaller

        model = smaller(build_model(source, head, head_seed=0, attention=attention), mask)  # type: ignore[arg-type]
        _copy(backbone_parameters(model), backbone)
    _load_head(model, tensors)
    return model


def _state(parameters: Mapping[str, Any], inputs: Mapping[str, Path], total: int) -> TrainingState | None:
    """θi with head, optimizer and place in the schedule of step i, where the training starts from those."""
    from tombola.training.state import TrainingState

    if parameters["start"]["kind"] != "state":
        return None
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in STATE_PARTS}
    for name, tensor in files.read_tensors(inputs["start"]).items():
        part, _, rest = name.partition("/")
        parts[part][rest] = tensor
    return TrainingState(step=parameters["start"]["first_step"], total=total, **parts)


def _load_head(model: PreTrainedModel, tensors: Mapping[str, Tensor]) -> None:
    from tombola.models.anatomy import head_parameters

    head = {name[len(HEAD) :]: tensor for name, tensor in tensors.items() if name.startswith(HEAD)}
    _copy(head_parameters(model), head)


def _copy(live: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Copy values, never tensors, and all of them."""
    import torch

    from tombola.errors import CorruptArtifact

    for name in sorted(live.keys() ^ saved.keys()):
        raise CorruptArtifact("the start weights are not those of this task's model", where=name)
    with torch.no_grad():
        for name, weight in live.items():
            weight.copy_(saved[name])


def _write_states(state: TrainingState, snapshots: Mapping[str, int], work: Workplace) -> None:
    for name, step in snapshots.items():
        if step == state.step:
            tensors = {f"{part}/{key}": t for part in STATE_PARTS for key, t in getattr(state, part).items()}
            work.write_tensors(name, tensors, transient=True)


def _put_out(
    parameters: Mapping[str, Any],
    sources: Mapping[str, Any],
    model: PreTrainedModel,
    mask: WeightMask | None,
    result: Any,
    work: Workplace,
) -> None:
    import torch

    from tombola.models.anatomy import anatomy_of
    from tombola.tasks.metrics import score
    from tombola.training.loop import evaluate

    recipe, numerics = Recipe.from_json(parameters["recipe"]), Numerics.from_json(parameters["numerics"])
    data = task_data(sources["task"], parameters["task"]["fingerprint"])
    scores: dict[str, dict[str, float]] = {}
    predictions: dict[str, Tensor] = {}
    stopped: dict[str, Any] = {}
    for split in ("dev", *(name for name in data.extra if not name.startswith("test"))):
        encoded = encoded_split(sources, split, recipe.max_length)
        if encoded.targets is None:
            raise DataError(
                f"the split {split} has no labels to score",
                where=str(sources["task"].get("data") or sources["task"]["name"]),
            )
        logits = evaluate(model, encoded, numerics)
        scores[split] = score(parameters["task"]["metrics"], logits, encoded.targets)
        predictions[split] = torch.from_numpy(logits)
        if split == "dev":
            stopped = stopping_scores(parameters, logits, encoded.targets, result)
    weights = weights_of(model)
    # Counted in the trained weights themselves, not copied from the mask (SPEC 5, trap 10).
    anatomy = anatomy_of(model)
    names = mask.names if mask is not None else anatomy.prunable_names
    zeros = sum(int((weights[name] == 0).sum()) for name in names)
    size = sum(weights[name].numel() for name in names)
    metrics = {
        **scores,
        "steps": result.steps,
        "loss": result.loss_last,
        "sparsity": {"zeros": zeros, "size": size, "share": zeros / size},
        **stopped,
    }
    if anatomy.structure is not None:
        metrics["structure"] = _structure(anatomy)
    work.write_json("metrics.json", metrics)
    work.write_lines("metrics.jsonl", [asdict(row) for row in result.log])
    work.write_tensors("predictions.safetensors", predictions)
    if "weights.safetensors" in work.wanted:
        work.write_tensors("weights.safetensors", weights, transient=True)


def _structure(anatomy: Anatomy) -> dict[str, Any]:
    """Heads and FFNs counted in the trained model's own modules."""
    return {
        "heads": [layer.heads for layer in anatomy.layers],
        "ffns": [int(bool(layer.feed_forward)) for layer in anatomy.layers],
        "parameters": anatomy.parameters,
    }


def _step_of(name: str) -> int:
    return int(name.removeprefix("state-").removesuffix(".safetensors"))
