"""The materials of a step: the model and the records that its fingerprints name, found again in this process.

A step carries hints (a model name, a data folder) beside its identity. Whoever runs it looks there, and refuses what
has another fingerprint: the same words must not mean two things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.errors import DataError, UnsupportedModel, UsageError
from tombola.masks.structure_sizes import StructureSizes
from tombola.models.families import FAMILIES
from tombola.plan.facts_cache import Stamp, cache_folder, remembered, stamps_of
from tombola.plan.problem import ModelFacts, Problem, TaskFacts

if TYPE_CHECKING:
    from tombola.models.resolve import ModelSource
    from tombola.tasks.encoding import Encoded
    from tombola.tasks.task import DataOptions, TaskData
    from tombola.training.recipe import Numerics, Recipe


def model_facts(name: str, revision: str | None, task: TaskFacts, keep_pooler: bool = False) -> ModelFacts:
    """Fingerprint a pre-trained model and list what it offers to prune as the task's model class uses it."""
    source = _source(name, revision)
    about = {
        "fact": "model with its heads and FFNs",
        "name": name,
        "revision": source.revision,
        "kind": task.kind,
        "outputs": task.outputs,
    }
    found = remembered(
        about,
        stamps_of(source.folder.iterdir()),
        lambda: _read_model(name, revision, task.kind, task.outputs),
    )
    optional = tuple(found["optional"])
    return ModelFacts(
        name=name if source.kind != "folder" else source.folder.name,
        kind=source.kind,
        revision=source.revision,
        fingerprint=found["fingerprint"],
        family=found["family"],
        prefix=found["prefix"],
        config=found["config"],
        tokenizer=found["tokenizer"],
        shapes={
            name: tuple(shape)
            for name, shape in found["shapes"].items()
            if not (keep_pooler and name in optional)
        },
        optional=() if keep_pooler else optional,
        longest_input=found["longest_input"],
        sizes=StructureSizes(**found["sizes"]),
        source={"name": name, "revision": revision},
    )


def _read_model(name: str, revision: str | None, kind: str, outputs: int) -> dict[str, Any]:
    """What only the model itself can tell."""
    from tombola.models.anatomy import anatomy_of
    from tombola.models.build import HeadSpec, build_model
    from tombola.models.checkpoint_weights import longest_input

    source = _source(name, revision)
    model = build_model(source, HeadSpec(kind, outputs), head_seed=0)  # type: ignore[arg-type]
    anatomy = anatomy_of(model)
    return {
        "fingerprint": _fingerprint(name, revision),
        "family": anatomy.family,
        "prefix": anatomy.prefix,
        "config": _config_fingerprint(name, revision),
        "tokenizer": _tokenizer_fingerprint(name, revision),
        "shapes": {name: list(shape) for name, shape in anatomy.shapes.items()},
        "optional": list(anatomy.optional),
        "longest_input": longest_input(source),
        "sizes": asdict(anatomy.structure_sizes),
    }


def task_facts(name: str | None, options: DataOptions) -> TaskFacts:
    """Load a task's records and say of them what identities and verdicts need."""
    source = {"name": name, **_plain(options)}
    stamps = _stamps(source)
    # What the hub holds has no stamps here: it is read each time.
    found = (
        remembered({"fact": "task", **source}, stamps, lambda: _read_task(source))
        if stamps
        else _read_task(source)
    )
    return TaskFacts(
        name=found["name"],
        fingerprint=found["fingerprint"],
        kind=found["kind"],
        labels=tuple(found["labels"]),
        metrics=tuple(found["metrics"]),
        train_examples=found["train_examples"],
        dev_examples=found["dev_examples"],
        majority=found["majority"],
        source=source,
    )


def further_splits(task: TaskFacts) -> dict[str, dict[str, Any]]:
    """The splits beside train and dev, test sets without labels among them: fingerprint and number of examples."""

    def read() -> dict[str, Any]:
        extra = _loaded(task.source).extra
        return {name: {"fingerprint": it.fingerprint, "examples": len(it)} for name, it in extra.items()}

    stamps = _stamps(task.source)
    return remembered({"fact": "further splits", **task.source}, stamps, read) if stamps else read()


def _read_task(source: Mapping[str, Any]) -> dict[str, Any]:
    """What only the records themselves can tell."""
    from tombola.tasks.metrics import majority_baseline

    data = _loaded(source)
    return {
        "name": data.task.name,
        "fingerprint": data.fingerprint,
        "kind": data.task.kind,
        "labels": list(data.task.labels),
        "metrics": list(data.task.metrics),
        "train_examples": len(data.train),
        "dev_examples": len(data.dev),
        "majority": majority_baseline(data.dev, data.task.metrics[0]),
    }


def problem(
    model: str,
    revision: str | None,
    task: str | None,
    options: DataOptions,
    recipe: Recipe,
    numerics: Numerics,
    *,
    keep_pooler: bool = False,
) -> Problem:
    """Everything that the trainings of one search or verification share.

    ``keep_pooler`` leaves the pooler out of what masks cover; it is trained all the same.
    """
    facts = task_facts(task, options)
    whole = model_facts(model, revision, facts, keep_pooler)
    _check_length(whole, recipe.max_length)
    if FAMILIES[whole.family].head_dropout is None:
        # The super tickets' recipe has one for every task, this family's heads have no place for it.
        recipe = replace(recipe, head_dropout=None)
    return Problem(whole, facts, recipe, numerics)


def model_source(source: Mapping[str, Any], fingerprint: str) -> ModelSource:
    """The pre-trained model a step names, proved to be that one."""
    found = _fingerprint(source["name"], source["revision"])
    if found != fingerprint:
        raise UnsupportedModel(
            f"the model has the fingerprint {found[:12]}, planned was {fingerprint[:12]}: another θ0",
            where=str(source["name"]),
            todo="plan again, or name the model and revision the plan was made with",
        )
    return _source(source["name"], source["revision"])


def task_data(source: Mapping[str, Any], fingerprint: str) -> TaskData:
    """The records a step names, proved to be those."""
    data = _loaded(source)
    if data.fingerprint != fingerprint:
        raise DataError(
            f"the data have the fingerprint {data.fingerprint[:12]}, planned was {fingerprint[:12]}",
            where=str(source.get("data") or source.get("data_dir") or source["name"]),
            todo="the files changed since the plan was made: plan again",
        )
    return data


@lru_cache(maxsize=16)
def _encoded(
    model_name: str,
    revision: str | None,
    task: tuple[tuple[str, Any], ...],
    stamps: tuple[Any, ...],
    split: str,
    length: int,
) -> Encoded:
    """One split, tokenized once a machine (the token cache) and read once a process."""
    from tombola.models.build import load_tokenizer
    from tombola.tasks.encoding import encode

    data = _task_data(task, stamps)
    records = {"train": data.train, "dev": data.dev, **data.extra}[split]
    return encode(
        records, load_tokenizer(_source(model_name, revision)), length, cache=cache_folder() / "tokens"
    )


def encoded_split(sources: Mapping[str, Any], split: str, length: int) -> Encoded:
    """One split of a step's data as its model's tokenizer cuts it."""
    model = sources["model"]
    task = sources["task"]
    return _encoded(model["name"], model["revision"], _frozen(task), _stamps(task), split, length)


@lru_cache(maxsize=8)
def _source(name: str, revision: str | None) -> ModelSource:
    from tombola.models.resolve import resolve

    return resolve(name, revision)


def _fingerprint(name: str, revision: str | None) -> str:
    from tombola.models.build import pretrained_fingerprint

    return pretrained_fingerprint(_source(name, revision))


@lru_cache(maxsize=8)
def _tokenizer_fingerprint(name: str, revision: str | None) -> str:
    from tombola.models.build import load_tokenizer
    from tombola.tasks.encoding import tokenizer_fingerprint

    return tokenizer_fingerprint(load_tokenizer(_source(name, revision)))


@lru_cache(maxsize=8)
def _config_fingerprint(name: str, revision: str | None) -> str:
    from tombola.models.checkpoint_weights import config_fingerprint

    return config_fingerprint(_source(name, revision))


def _check_length(model: ModelFacts, length: int) -> None:
    longest = model.longest_input
    if longest is not None and length > longest:
        raise UsageError(
            f"the model has positions for {longest} tokens, not for {length}",
            where="--max-length",
            todo=f"give at most {longest}",
        )


def _loaded(source: Mapping[str, Any]) -> TaskData:
    return _task_data(_frozen(source), _stamps(source))


def _stamps(source: Mapping[str, Any]) -> tuple[Stamp, ...]:
    """Size and time of the files behind a task: records are read again when their file changes."""
    stamps: list[Stamp] = []
    for key in ("data_dir", "data", "eval_data"):
        if source.get(key) is not None:
            path = Path(source[key])
            stamps += stamps_of([path] if path.is_file() else [*path.glob("*.*"), *path.glob("*/*.*")])
    return tuple(stamps)


@lru_cache(maxsize=8)
def _task_data(source: tuple[tuple[str, Any], ...], stamps: tuple[Any, ...]) -> TaskData:
    from tombola.tasks.task import DataOptions, load_task

    options = dict(source)
    name = options.pop("name")
    for key in ("data_dir", "data", "eval_data"):
        options[key] = None if options[key] is None else Path(options[key])
    return load_task(name, DataOptions(**options))


def _plain(options: DataOptions) -> dict[str, Any]:
    return {key: str(value) if isinstance(value, Path) else value for key, value in asdict(options).items()}


def _frozen(source: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(source.items()))
