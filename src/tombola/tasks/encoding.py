"""Records as token ids: all of them in two flat arrays, encoded by the tokenizer's own batch call, cached on
request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tombola.canonical import digest
from tombola.errors import DataError, UnsupportedModel
from tombola.tasks.records import Records

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CHUNK = 8192
SHORTEST = 8


@dataclass(frozen=True, eq=False)
class Encoded:
    """The token ids of example i are ``ids[offsets[i]:offsets[i + 1]]``; ``type_ids`` where the tokenizer
    gives them.

    ``targets`` are int64 classes or float32 numbers; ``truncated`` counts the examples cut to ``max_length``.
    """

    ids: np.ndarray
    offsets: np.ndarray
    type_ids: np.ndarray | None
    targets: np.ndarray | None
    max_length: int
    truncated: int
    pad_id: int
    pad_type_id: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, special ones included (int64)."""
        return np.diff(self.offsets)

    def take(self, rows: Sequence[int]) -> Encoded:
        """The examples at these positions, in the order given; ``truncated`` stays the whole split's."""
        lengths = self.lengths[list(rows)]
        tokens = np.concatenate(
            [np.arange(self.offsets[row], self.offsets[row + 1]) for row in rows] or [np.zeros(0, np.int64)]
        )
        return replace(
            self,
            ids=self.ids[tokens],
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
            type_ids=None if self.type_ids is None else self.type_ids[tokens],
            targets=None if self.targets is None else self.targets[list(rows)],
        )


def encode(records: Records, tokenizer: Any, max_length: int, *, cache: Path | None = None) -> Encoded:
    """Tokenise ``records`` as ``tokenizer(first, second, truncation="longest_first", max_length=…)`` does.

    ``cache`` is a folder; what is found there is checked, and encoded again if it is damaged or belongs to
    other data.
    """
    if max_length < SHORTEST:
        raise DataError(
            f"a length of {max_length} tokens leaves no text", where="max_length", todo="give at least 8"
        )
    backend = _private_backend(tokenizer)
    pad_id = tokenizer.pad_token_id
    if pad_id is None:
        raise UnsupportedModel(
            "the tokenizer has no padding token",
            where="tokenizer.pad_token",
            todo="set it, to the end-of-text token say",
        )
    wants_types = "token_type_ids" in tokenizer.model_input_names
    key = _cache_key(records, backend, max_length, wants_types)
    backend.enable_truncation(max_length, strategy="longest_first", direction=tokenizer.truncation_side)

    from tombola.tasks import token_cache

    tokens = token_cache.read(cache, key, len(records)) if cache else None
    if tokens is None:
        tokens = _tokenise(records, backend, max_length, wants_types, pad_id)
        if cache:
            token_cache.write(cache, key, tokens)
    return Encoded(
        ids=tokens["ids"],
        offsets=tokens["offsets"],
        type_ids=tokens.get("type_ids"),
        targets=_targets(records),
        max_length=max_length,
        truncated=int(tokens["truncated"][0]),
        pad_id=int(pad_id),
        pad_type_id=int(tokenizer.pad_token_type_id),
    )


def _private_backend(tokenizer: Any) -> Tokenizer:
    """A copy of the Rust tokenizer, so that setting its truncation leaves the user's tokenizer as it was."""
    if not getattr(tokenizer, "is_fast", False):
        raise UnsupportedModel(
            f"{type(tokenizer).__name__} is not a fast tokenizer",
            where="tokenizer",
            todo="give a model folder with a tokenizer.json",
        )
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.encode_special_tokens = bool(getattr(tokenizer, "split_special_tokens", False))
    backend.no_truncation()
    backend.no_padding()
    return backend


def _cache_key(records: Records, backend: Tokenizer, max_length: int, wants_types: bool) -> str:
    """What the tokens depend on: the texts, the tokenizer as loaded (path-free), the length, the library's
    version.
    """
    import tokenizers

    return digest(
        {
            "format": 1,
            "records": records.fingerprint,
            "tokenizer": _cutting(backend),
            "max_length": max_length,
            "types": wants_types,
            "tokenizers": tokenizers.__version__,
        }
    )


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """SHA-256 of everything that decides which ids a text becomes, and how batches of them are padded."""
    return digest(
        {
            "tokenizer": _cutting(_private_backend(tokenizer)),
            "inputs": list(tokenizer.model_input_names),
            "truncation": tokenizer.truncation_side,
            "padding": [tokenizer.pad_token_id, tokenizer.pad_token_type_id],
        }
    )


def _cutting(backend: Tokenizer) -> list[Any]:
    import hashlib

    return [hashlib.sha256(backend.to_str().encode()).hexdigest(), bool(backend.encode_special_tokens)]


def _tokenise(
    records: Records, backend: Tokenizer, max_length: int, wants_types: bool, pad_id: int
) -> dict[str, np.ndarray]:
    """One batch call a chunk: its threads obey TOKENIZERS_PARALLELISM, the chunk bounds the memory."""
    pieces: list[np.ndarray] = [np.zeros(0, np.int32)]
    types: list[np.ndarray] = [np.zeros(0, np.uint8)]
    lengths = np.zeros(len(records), np.int64)
    truncated = 0
    for start in range(0, len(records), CHUNK):
        stop = min(start + CHUNK, len(records))
        first = records.first[start:stop]
        texts = (
            list(first)
            if records.second is None
            else list(zip(first, records.second[start:stop], strict=True))
        )
        encodings = backend.encode_batch_fast(texts)
        for row, encoding in enumerate(encodings, start):
            # A tokenizer without special tokens (GPT-2) leaves nothing of an empty text; a model needs a token.
            ids = encoding.ids or [pad_id]
            lengths[row] = len(ids)
            # Only an example that fills the length can have been cut, and asking costs.
            truncated += len(ids) >= max_length and len(encoding.overflowing) > 0
            pieces.append(np.asarray(ids, np.int32))
            if wants_types:
                types.append(np.asarray(encoding.type_ids or [0], np.uint8))
    tokens = {
        "ids": np.concatenate(pieces),
        "offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        "truncated": np.array([truncated], np.int64),
    }
    if wants_types:
        tokens["type_ids"] = np.concatenate(types)
    return tokens


def _targets(records: Records) -> np.ndarray | None:
    if records.targets is None:
        return None
    return np.asarray(records.targets, np.int64 if records.labels else np.float32)
