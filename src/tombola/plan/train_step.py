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
from tombola.plan.workplace import Workplace
from tombola.streams import derive
from tombola.training.recipe import Numerics, Recipe

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

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
    )
    _put_out(parameters, sources, model, mask, result, work)
    # Of this process only: after a kill an earlier one has made the first steps.
    work.timing.update({"training_seconds": result.seconds, "optimizer_steps": steps_here})


def starting_model(
    parameters: Mapping[str, Any], inputs: Mapping[str, Path], sources: Mapping[str, Any]
) -> PreTrainedModel:
    """The model as the training finds it: backbone by the kind of start, task head by seed and purpose."""
    from tombola.models.anatomy import anatomy_of
    from tombola.models.build import HeadSpec, build_model, pretrained_state
    from tombola.models.starts import shuffled

    source = model_source(sources["model"], parameters["model"]["fingerprint"])
    start, seed = parameters["start"], parameters["seed"]
    head = HeadSpec(parameters["task"]["kind"], parameters["task"]["outputs"])
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
            _load_head(model, {name[len(HEAD) :]: t for name, t in tensors.items() if name.startswith(HEAD)})
        return model
    return build_model(source, head, head_seed=head_seed, attention=attention)


def weights_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """Every parameter by its portable name: relative to the backbone, or marked as the task head's."""
    from tombola.models.anatomy import backbone_parameters, head_parameters, snapshot

    head = {f"{HEAD}{name}": weight for name, weight in head_parameters(model).items()}
    return snapshot({**backbone_parameters(model), **head})


def trained_model(step: Step, weights: Path) -> PreTrainedModel:
    """A finished training's model: the step's class and head with the weights that it left."""
    from tombola.models.build import HeadSpec, build_model

    parameters = step.parameters
    source = model_source(step.sources["model"], parameters["model"]["fingerprint"])
    tensors = files.read_tensors(weights)
    backbone = {name: tensor for name, tensor in tensors.items() if not name.startswith(HEAD)}
    head = HeadSpec(parameters["task"]["kind"], parameters["task"]["outputs"])
    model = build_model(source, head, start=backbone, head_seed=0)
    _load_head(model, {name[len(HEAD) :]: t for name, t in tensors.items() if name.startswith(HEAD)})
    return model.eval()


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


def _load_head(model: PreTrainedModel, saved: Mapping[str, Tensor]) -> None:
    import torch

    from tombola.errors import CorruptArtifact
    from tombola.models.anatomy import head_parameters

    live = head_parameters(model)
    for name in sorted(live.keys() ^ saved.keys()):
        raise CorruptArtifact("the start weights do not hold this task's head", where=name)
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
    weights = weights_of(model)
    # Counted in the trained weights themselves, not copied from the mask (SPEC 5, trap 10).
    names = mask.names if mask is not None else anatomy_of(model).prunable_names
    zeros = sum(int((weights[name] == 0).sum()) for name in names)
    size = sum(weights[name].numel() for name in names)
    metrics = {
        **scores,
        "steps": result.steps,
        "loss": result.loss_last,
        "sparsity": {"zeros": zeros, "size": size, "share": zeros / size},
    }
    work.write_json("metrics.json", metrics)
    work.write_lines("metrics.jsonl", [asdict(row) for row in result.log])
    work.write_tensors("predictions.safetensors", predictions)
    if "weights.safetensors" in work.wanted:
        work.write_tensors("weights.safetensors", weights, transient=True)


def _step_of(name: str) -> int:
    return int(name.removeprefix("state-").removesuffix(".safetensors"))
