"""What a model reads: token ids and what goes with them, or pictures; and made-up batches of it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tombola.errors import UnsupportedModel, UsageError
from tombola.models.families import FAMILIES

#: What text models may be given, in the order in which an exported model declares it.
_TEXT = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Inputs:
    """The inputs of one model. Pictures have one size, so that their length means nothing."""

    names: tuple[str, ...]
    vocabulary: int = 0
    pad_id: int = 0
    longest: int | None = None
    picture: tuple[int, int, int] | None = None  # channels, height, width

    def check(self, batch: int, length: int) -> None:
        """Refuse a batch that the model cannot take."""
        if batch < 1:
            raise UsageError(f"a batch of {batch} is none", where="batch", todo="give 1 or more")
        if self.picture is not None:
            return
        if length < 1:
            raise UsageError(f"a length of {length} tokens is none", where="length", todo="give 1 or more")
        if self.longest is not None and length > self.longest:
            raise UsageError(
                f"the model has positions for {self.longest} tokens, not for {length}",
                where="length",
                todo=f"give at most {self.longest}",
            )

    def batch(self, batch: int, length: int, *, seed: int = 0, padded: bool = False) -> dict[str, Tensor]:
        """A made-up batch of the seed. ``padded``: every second example is as short as it can be or half as long."""
        self.check(batch, length)
        draw = torch.Generator().manual_seed(seed)
        if self.picture is not None:
            return {self.names[0]: torch.randn((batch, *self.picture), generator=draw)}
        ids = torch.randint(0, self.vocabulary, (batch, length), generator=draw)
        # A padding token in the middle of a text would be another test: some models look for it.
        ids[ids == self.pad_id] = (self.pad_id + 1) % self.vocabulary
        attended = torch.ones(batch, length, dtype=torch.int64)
        if padded:
            for row in range(1, batch, 2):
                attended[row, max(1, length // 2 if row % 4 == 1 else 1) :] = 0
            ids[attended == 0] = self.pad_id
        made = {"input_ids": ids, "attention_mask": attended, "token_type_ids": torch.zeros_like(ids)}
        return {name: made[name] for name in self.names}


def inputs_of(model: nn.Module, tokenizer: Any = None) -> Inputs:
    """What ``model`` reads; with a tokenizer, what that one gives and the model takes."""
    config: Any = getattr(model, "config", None)
    if config is None:
        raise UnsupportedModel(
            "the model has no configuration that says what it reads",
            where=type(model).__name__,
            todo="give a transformers model, or its inputs",
        )
    main = getattr(model, "main_input_name", "input_ids")
    if main == "pixel_values":
        return Inputs(("pixel_values",), picture=_picture(config))
    if main != "input_ids":
        raise UnsupportedModel(
            f"the model reads {main}, neither text nor pictures", where=type(model).__name__
        )
    taken = inspect.signature(model.forward).parameters
    typed = (getattr(config, "type_vocab_size", None) or 0) > 1
    given = (_TEXT if typed else _TEXT[:2]) if tokenizer is None else tuple(tokenizer.model_input_names)
    names = tuple(name for name in _TEXT if name in taken and name in given)
    return Inputs(
        names=names,
        vocabulary=int(config.vocab_size),
        pad_id=int(getattr(config, "pad_token_id", None) or 0),
        longest=longest_of(config),
    )


def longest_of(config: Any) -> int | None:
    """How many tokens the position table has room for; None where there is none."""
    rows = getattr(config, "max_position_embeddings", None)
    if rows is None:
        return None
    told = getattr(config, "tombola", None)
    kind = told.get("base_model_type") if isinstance(told, dict) else config.model_type
    family = FAMILIES.get(str(kind))
    return int(rows) - (family.reserved_positions if family else 0)


def _picture(config: Any) -> tuple[int, int, int]:
    size = config.image_size
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    return int(config.num_channels), int(height), int(width)
