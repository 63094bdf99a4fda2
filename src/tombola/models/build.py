"""A trainable model from where a ticket starts: backbone θ0, θi or re-initialised, and a fresh task head γ.

The head comes from a stream of its own, so it depends on its seed, class and sizes only; the backbone is
copied last, bit for bit. The process's own random state is afterwards what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from tombola import streams
from tombola.errors import MaskMismatch, RecipeError, UnsupportedModel
from tombola.models.anatomy import DRAWN, anatomy_of, backbone_parameters, head_parameters
from tombola.models.checkpoint_weights import (
    load_config,
    optional_names,
    pretrained_fingerprint,
    pretrained_state,
    shared_state,
)
from tombola.models.families import family_of
from tombola.models.resolve import ModelSource

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = [
    "HeadSpec",
    "build_model",
    "load_config",
    "load_tokenizer",
    "pretrained_fingerprint",
    "pretrained_state",
]

_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")


@dataclass(frozen=True)
class HeadSpec:
    """The task head: classes (or one number), and its dropout where it differs from the model's own."""

    kind: Literal["classification", "regression"]
    num_labels: int
    dropout: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("classification", "regression"):
            raise RecipeError(f"a task head is a classification or a regression, not {self.kind!r}")
        if self.kind == "regression" and self.num_labels != 1:
            raise RecipeError(f"a regression predicts one number, not {self.num_labels}", where="num_labels")
        if self.kind == "classification" and self.num_labels < 2:
            raise RecipeError(
                f"a classification needs two classes, not {self.num_labels}", where="num_labels"
            )
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise RecipeError(
                f"a dropout lies in [0, 1), not at {self.dropout}", where="dropout of the task head"
            )


def build_model(
    source: ModelSource,
    head: HeadSpec,
    *,
    start: Mapping[str, torch.Tensor] | None = None,
    head_seed: int,
    attention: Literal["sdpa", "eager"] = "sdpa",
    reinit_seed: int | None = None,
) -> PreTrainedModel:
    """transformers' sequence-classification class on the CPU in float32 and in training mode.

    The backbone is ``start`` or else θ0, bitwise; with ``reinit_seed`` it is initialised as its class does,
    embeddings and LayerNorm included (θ0′ of SPEC 2.3). A pooler that the checkpoint lacks is drawn with
    the head and counts as part of it (``anatomy_of(model).drawn``).
    """
    if start is not None and reinit_seed is not None:
        raise RecipeError("a start and a re-initialisation exclude each other", where="start, reinit_seed")
    given = shared_state(source) if start is None else start
    model = _empty_model(source, head, attention)
    everything = backbone_parameters(model)
    family = family_of(model.config.model_type)
    may_lack = optional_names(family, everything) - set(shared_state(source))
    drawn = tuple(name for name in everything if name in may_lack and name not in given)
    with torch.no_grad():
        _draw(model, {id(weight) for weight in head_parameters(model).values()}, head_seed, "head")
        _draw(model, {id(everything[name]) for name in drawn}, head_seed, "head", "pooler")
        setattr(model, DRAWN, drawn)
        backbone = backbone_parameters(model)
        if reinit_seed is not None:
            _draw(model, {id(weight) for weight in backbone.values()}, reinit_seed, "reinit")
        else:
            _copy(backbone, given, source)
    anatomy_of(model)  # refuses a model whose matrices are not what its family says
    return model.train()


def load_tokenizer(source: ModelSource) -> PreTrainedTokenizerBase:
    """The folder's fast tokenizer; GPT-2, which has no padding token, pads with its end of text."""
    if not any((source.folder / name).is_file() for name in _TOKENIZER_FILES):
        raise UnsupportedModel(
            "the folder holds no tokenizer",
            where=str(source.folder),
            todo="save the model's tokenizer beside it: tokenizer.save_pretrained(folder)",
        )
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            source.folder, local_files_only=True, trust_remote_code=False
        )
    except (ValueError, OSError, KeyError, TypeError) as error:
        raise UnsupportedModel(
            f"the tokenizer cannot be loaded ({error})",
            where=str(source.folder),
            todo="save it again with transformers: tokenizer.save_pretrained(folder)",
        ) from None
    if not tokenizer.is_fast:
        raise UnsupportedModel(
            "the tokenizer is a slow one", where=str(source.folder), todo="save it with its tokenizer.json"
        )
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise UnsupportedModel(
                "the tokenizer has neither a padding token nor an end of text", where=str(source.folder)
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _empty_model(source: ModelSource, head: HeadSpec, attention: str) -> PreTrainedModel:
    """The class with all its modules and no values: built on the meta device, which draws nothing."""
    from transformers import AutoModelForSequenceClassification

    if attention not in ("sdpa", "eager"):
        raise RecipeError(f"attention is 'sdpa' or 'eager', not {attention!r}", where="attention")
    config = load_config(source)
    family = family_of(config.model_type)
    if family.reads != "text":
        raise UnsupportedModel(
            f"{family.model_type} models read {family.reads}, and the tasks are about text",
            where=source.name,
            todo="take a model of text",
        )
    config.num_labels = head.num_labels
    config.problem_type = "regression" if head.kind == "regression" else "single_label_classification"
    if head.dropout is not None:
        if family.head_dropout is not None:
            setattr(config, family.head_dropout, head.dropout)
        elif head.dropout > 0:
            raise RecipeError(
                f"the task head of {family.model_type} models has no dropout",
                where="dropout of the task head",
            )
    if config.pad_token_id is None:
        config.pad_token_id = load_tokenizer(source).pad_token_id
    with torch.device("meta"):
        model: Any = AutoModelForSequenceClassification.from_config(
            config,
            dtype=torch.float32,
            attn_implementation="eager" if family.own_attention else attention,
        )
    model.to_empty(device="cpu")
    model.tie_weights()
    return model


def _draw(model: Any, chosen: Collection[int], seed: int, *names: str) -> None:
    """Initialise the ``chosen`` weights (by id) as the class does, from a stream of their own.

    transformers skips what carries its flag ``_is_hf_initialized``, which is how it fills the gaps of a
    checkpoint. Flagged weights consume no random numbers either, so a draw depends on nothing but what is
    drawn. Buffers are always filled.
    """
    for module in model.modules():
        module._is_hf_initialized = False
    for weight in model.parameters():
        weight._is_hf_initialized = id(weight) not in chosen
    try:
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed, which would also reset the generators of every GPU.
            torch.default_generator.manual_seed(streams.derive(seed, *names))
            model.initialize_weights()
    finally:
        for weight in model.parameters():
            del weight._is_hf_initialized


def _copy(
    backbone: Mapping[str, torch.Tensor], start: Mapping[str, torch.Tensor], source: ModelSource
) -> None:
    """Copy values, never tensors: training must not reach back into ``start`` (trap 1)."""
    for name, weight in backbone.items():
        if name not in start:
            raise MaskMismatch(
                "the start lacks a backbone weight", where=f"parameter {name} of {source.name}"
            )
        if start[name].shape != weight.shape:
            raise MaskMismatch(
                f"a weight of the start is {tuple(start[name].shape)}, of the model {tuple(weight.shape)}",
                where=f"parameter {name} of {source.name}",
            )
        weight.copy_(start[name])
