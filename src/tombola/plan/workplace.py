"""Where a running step writes: its staging folder, its scratch, and the list of what it has put out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola import files

if TYPE_CHECKING:
    import torch

#: (optimizer steps done, of how many, seconds so far)
Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Workplace:
    """``wanted`` names the transient outputs that somebody waits for; no other transient output need be made."""

    staging: Path
    scratch: Path
    wanted: frozenset[str]
    progress: Progress | None = None
    written: dict[str, bool] = field(default_factory=dict)
    timing: dict[str, Any] = field(default_factory=dict)

    def write_json(self, name: str, value: Any) -> None:
        """A kept JSON output."""
        files.write_json(self.staging / name, value)
        self.written[name] = False

    def write_lines(self, name: str, entries: list[Mapping[str, Any]]) -> None:
        """A kept output of one JSON object a line."""
        from tombola.canonical import canonical_json

        text = "".join(canonical_json(dict(entry)) + "\n" for entry in entries)
        files.write_bytes(self.staging / name, text.encode())
        self.written[name] = False

    def write_tensors(
        self, name: str, tensors: Mapping[str, torch.Tensor], *, transient: bool = False
    ) -> None:
        """A tensor output; a transient one may be dropped from the store and recomputed."""
        files.write_tensors(self.staging / name, tensors)
        self.written[name] = transient

    def adopt(self, name: str, *, transient: bool = False) -> Path:
        """The path for an output that another function writes itself."""
        self.written[name] = transient
        return self.staging / name
