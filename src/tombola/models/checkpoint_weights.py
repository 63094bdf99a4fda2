"""The pre-trained weights θ0 of a folder: safetensors only, every weight accounted for, always float32.

transformers re-initialises what a checkpoint lacks and goes on with a warning. A ticket on such weights
would be a ticket on noise, so here a missing or misshapen weight is an error that names it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tombola.canonical import digest
from tombola.errors import CorruptArtifact, UnsupportedModel
from tombola.files import read_json, read_tensors
from tombola.models.anatomy import backbone_parameters, relative_name
from tombola.models.families import family_of
from tombola.models.families.family import Family
from tombola.models.fingerprint import fingerprint
from tombola.models.resolve import ModelSource

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
#: Spellings of old checkpoints, renamed as transformers renames them.
_LEGACY = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
)
#: Models kept in memory: searches go back to one θ0 many times, rarely to more than two.
_KEPT = 2


@dataclass
class _Loaded:
    state: dict[str, torch.Tensor]
    fingerprint: str | None = None


_cache: OrderedDict[tuple[object, ...], _Loaded] = OrderedDict()


def pretrained_state(source: ModelSource) -> dict[str, torch.Tensor]:
    """θ0 by backbone-relative name, float32 on the CPU. The copies are the caller's own."""
    return {name: weight.clone() for name, weight in shared_state(source).items()}


def pretrained_fingerprint(source: ModelSource) -> str:
    """The fingerprint of θ0, computed once per process while the files stay as they are."""
    loaded = _loaded(source)
    if loaded.fingerprint is None:
        loaded.fingerprint = fingerprint(loaded.state)
    return loaded.fingerprint


def shared_state(source: ModelSource) -> Mapping[str, torch.Tensor]:
    """θ0 as the cache holds it, for readers that copy at once. Never write into it, never keep it."""
    return _loaded(source).state


def load_config(source: ModelSource) -> Any:
    """The folder's configuration, after its family has been checked."""
    path = source.folder / "config.json"
    plain = read_json(path)
    if not isinstance(plain, dict):
        raise CorruptArtifact("config.json holds no settings", where=str(path))
    family_of(plain.get("model_type"), where=f"model_type in config.json of {source.name}")
    if plain.get("quantization_config"):
        raise UnsupportedModel(
            "the weights are quantised", where=str(path), todo="take the unquantised model"
        )
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)


#: Settings that change no computation: where a configuration came from, and what heads it once had.
NOT_COMPUTING = frozenset(
    {
        *("_name_or_path", "name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"),
        *("id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "use_cache"),
        *("gradient_checkpointing", "task_specific_params", "_attn_implementation"),
    }
)


def config_fingerprint(source: ModelSource) -> str:
    """SHA-256 of the settings that decide what the same weights compute: heads, activation, dropout, …"""
    load_config(source)
    plain = read_json(source.folder / "config.json")
    return digest({key: value for key, value in plain.items() if key not in NOT_COMPUTING})


def longest_input(source: ModelSource) -> int | None:
    """How many tokens the position table has room for; None where a family has no table."""
    config = load_config(source)
    rows = getattr(config, "max_position_embeddings", None)
    return None if rows is None else int(rows) - family_of(config.model_type).reserved_positions


def _loaded(source: ModelSource) -> _Loaded:
    files = [source.folder / "config.json", *weight_files(source.folder)]
    key = tuple((str(f), s.st_size, s.st_mtime_ns) for f in files for s in [f.stat()])
    if key in _cache:
        _cache.move_to_end(key)
        return _cache[key]
    _cache[key] = _Loaded(_read_backbone(source, files[1:]))
    while len(_cache) > _KEPT:
        _cache.popitem(last=False)
    return _cache[key]


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder: one, or the shards that its index names."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
        names = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(names, dict) or not names or not all(isinstance(n, str) for n in names.values()):
            raise CorruptArtifact("the index names no shards", where=str(folder / INDEX))
        shards = sorted(set(names.values()))
        for shard in shards:
            if Path(shard).name != shard or not shard.endswith(".safetensors"):
                raise CorruptArtifact(f"the index names the shard {shard!r}", where=str(folder / INDEX))
            if not (folder / shard).is_file():
                raise CorruptArtifact(f"the shard {shard} is missing", where=str(folder / INDEX))
        return [folder / shard for shard in shards]
    others = sorted(
        p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack")
    )
    if others:
        raise UnsupportedModel(
            f"the weights are only there as {', '.join(others)}; pickles can run code, so none is loaded",
            where=str(folder),
            todo="load the model where you trust it and save it again: model.save_pretrained(folder)",
        )
    raise UnsupportedModel(
        "the model has no weights in safetensors (model.safetensors)",
        where=str(folder),
        todo="pickles (pytorch_model.bin) are not loaded: load them where you trust them and save again",
    )


def _read_backbone(source: ModelSource, files: Iterable[Path]) -> dict[str, torch.Tensor]:
    expected, optional, prefix, family = _expected(source)
    found: dict[str, torch.Tensor] = {}
    for path in files:
        for full_name, tensor in read_tensors(path).items():
            name = _modern(relative_name(full_name, prefix), family)
            if name not in expected:
                _check_dropped(name, family, path)
                continue
            if name in found:
                raise UnsupportedModel("a weight is there twice", where=f"parameter {name} in {path.name}")
            if tuple(tensor.shape) != expected[name]:
                raise UnsupportedModel(
                    f"a weight has the shape {tuple(tensor.shape)} where config.json says {expected[name]}",
                    where=f"parameter {name} in {path.name} of {source.name}",
                    todo="the weights and config.json are not of the same model",
                )
            if not tensor.is_floating_point():
                raise UnsupportedModel(
                    f"a weight holds {tensor.dtype} numbers: quantised?",
                    where=f"parameter {name} in {path.name} of {source.name}",
                )
            # The file is memory-mapped: a copy is ours even when the file changes.
            found[name] = tensor.to(torch.float32, copy=True).contiguous()
    missing = [name for name in expected if name not in found and name not in optional]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UnsupportedModel(
            f"the checkpoint lacks the weight {missing[0]}{more}; a random one would go unnoticed",
            where=source.name,
            todo="take the whole model's checkpoint",
        )
    return {name: found[name] for name in expected if name in found}


def _expected(source: ModelSource) -> tuple[dict[str, tuple[int, ...]], set[str], str, Family]:
    """Every weight of the family's backbone class for this configuration, without allocating one."""
    from transformers import AutoModel

    config = load_config(source)
    family = family_of(config.model_type)
    with torch.device("meta"):
        backbone = AutoModel.from_config(config, dtype=torch.float32)
    expected = {name: tuple(weight.shape) for name, weight in backbone_parameters(backbone).items()}
    return expected, optional_names(family, expected), str(backbone.base_model_prefix), family


def optional_names(family: Family, names: Iterable[str]) -> set[str]:
    """The names among ``names`` that a checkpoint of this family may lack: the pooler's weight and bias."""
    return {name for name in names if family.pooler and name.startswith(f"{family.pooler}.")}


def _modern(name: str, family: Family) -> str:
    for pattern, replacement in (*_LEGACY, *family.former_names):
        name = re.sub(pattern, replacement, name)
    return name


def _check_dropped(name: str, family: Family, path: Path) -> None:
    """Task heads and buffers are dropped knowingly; a layer the configuration does not know is not."""
    if name.endswith(family.not_weights):
        return
    layers = family.layer.split("{}")[0]
    if name.startswith((layers, *(f"{part}." for part in family.embeddings))):
        raise UnsupportedModel(
            "the checkpoint holds a backbone weight that the configuration has no place for",
            where=f"parameter {name} in {path.name}",
            todo="the weights and config.json are not of the same model",
        )
