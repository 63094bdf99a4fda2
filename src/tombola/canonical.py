"""Canonical JSON and its hash: the text that identities and fingerprints are made of."""

from __future__ import annotations

import hashlib
import json
import marshal
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8 kept, numbers as Python prints them."""
    _refuse_unrepeatable(value, "value")
    return _ENCODER.encode(value)


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of ``value``."""
    return digest_of_text(canonical_json(value))


def digest_of_text(text: str) -> str:
    """SHA-256 (hex) of text that is canonical JSON already."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Block:
    """A JSON value and its canonical text; equal values share one block, which nobody may change."""

    value: Any
    text: str


def block(value: Any) -> Block:
    """The block of a value: a hundred thousand steps that say the same recipe hold and spell it once."""
    if isinstance(value, (dict, list, tuple)):
        try:
            return _shared(marshal.dumps(value, 2))
        except (TypeError, ValueError):
            pass  # nothing that marshal knows, or nothing that JSON does: the plain way tells which
    return Block(value, canonical_json(value))


@lru_cache(maxsize=4096)
def _shared(written: bytes) -> Block:
    # Written and read in this process only. Unlike a dict, bytes can be looked up, and 1, 1.0 and True differ.
    value = marshal.loads(written)
    if not isinstance(value, dict):
        return Block(value, canonical_json(value))
    parts = {key: block(item) for key, item in value.items()}
    spelled = ",".join(f"{canonical_json(str.__str__(key))}:{parts[key].text}" for key in sorted(parts))
    return Block({key: part.value for key, part in parts.items()}, f"{{{spelled}}}")


def _refuse_unrepeatable(value: Any, path: str) -> None:
    """A number that is not finite or a type with no single spelling would make an identity ambiguous."""
    if value is None or isinstance(value, (bool, int, str)):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}: identities hold finite numbers only")
        return
    if isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            _refuse_unrepeatable(item, f"{path}[{position}]")
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}: identities have text keys only")
            _refuse_unrepeatable(item, f"{path}.{key}")
        return
    raise TypeError(f"{path} is a {type(value).__name__}: identities hold plain JSON values only")
