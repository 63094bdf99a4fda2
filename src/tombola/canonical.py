"""Canonical JSON and its hash: the text that identities and fingerprints are made of."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any


def canonical_json(value: Any) -> str:
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8 kept, numbers as Python prints them."""
    _refuse_unrepeatable(value, "value")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


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
