"""Checkpoints: a killed training goes on from its newest whole checkpoint and ends in the same bytes."""

from __future__ import annotations

import re
import shutil
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tombola.errors import CorruptArtifact
from tombola.training.state import TrainingState, load_state, save_state

#: The newest may be damaged by a failing disk; the one before it is then still there.
KEPT = 2
CHECKPOINT = re.compile(r"step-\d{10}")


class Checkpoints:
    """What one training saves between its steps: checkpoints to go on from, snapshots that were asked for.

    Checkpoints are a matter of time and only the newest stay; snapshots are a matter of steps, stay in the
    folder until the caller removes it, and are handed to ``on_snapshot``. ``about`` tells one run from
    another: what belongs to another run is set aside. Without a ``folder`` nothing is written; a process
    that may not write (``writes``) only reads.
    """

    def __init__(
        self,
        folder: Path | None,
        about: Mapping[str, Any],
        *,
        every_seconds: float,
        snapshots: Collection[int],
        on_snapshot: Callable[[TrainingState], None],
        writes: bool = True,
    ) -> None:
        self.folder = folder
        self.about = dict(about)
        self.every_seconds = every_seconds
        self.snapshots = frozenset(snapshots)
        self.on_snapshot = on_snapshot
        self.writes = writes and folder is not None
        self._saved_at = time.monotonic()
        if self.writes and folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob(".*.partial"):
                shutil.rmtree(leftover, ignore_errors=True)

    def newest(self) -> TrainingState | None:
        """The newest whole checkpoint whose earlier snapshots are whole too; those are handed over again."""
        for folder in reversed(self._checkpoints()):
            state = self._read(folder)
            if state is None:
                continue
            earlier = [
                self._read(self._snapshot(step)) for step in sorted(self.snapshots) if step < state.step
            ]
            if any(snapshot is None for snapshot in earlier):
                continue
            for snapshot in earlier:
                if snapshot is not None:
                    self.on_snapshot(snapshot)
            return state
        return None

    def between_steps(self, step: int, capture: Callable[[int], TrainingState]) -> None:
        """Take what is wanted after ``step`` steps; ``capture`` copies the training as it stands."""
        if step in self.snapshots:
            snapshot = replace(capture(step), history={}, stopping={})
            if self.writes and not self._snapshot(step).exists():
                save_state(self._snapshot(step), snapshot, self.about)
            self.on_snapshot(snapshot)
        if self.writes and time.monotonic() - self._saved_at >= self.every_seconds:
            self.save(capture(step))

    def save(self, state: TrainingState) -> None:
        """Publish a checkpoint, then let go of all but the newest."""
        if not self.writes or self.folder is None:
            return
        folder = self.folder / f"step-{state.step:010d}"
        if not folder.exists():
            save_state(folder, state, self.about)
        # Later ones are there if a snapshot was missing: they are good again once this training has passed it.
        for old in [path for path in self._checkpoints() if path.name <= folder.name][:-KEPT]:
            _remove(old)
        self._saved_at = time.monotonic()

    def _snapshot(self, step: int) -> Path:
        return (self.folder or Path()) / f"snapshot-{step:010d}"

    def _checkpoints(self) -> list[Path]:
        if self.folder is None or not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if CHECKPOINT.fullmatch(path.name))

    def _read(self, folder: Path) -> TrainingState | None:
        """The state in ``folder``; one that is damaged or another run's is set aside with a warning."""
        if not folder.exists():
            return None
        try:
            return load_state(folder, self.about)
        except (CorruptArtifact, OSError) as error:  # a failing disk reads nothing, or something else
            if self.writes:
                aside = folder.with_name(f"set-aside-{folder.name}-{uuid.uuid4().hex[:8]}")
                folder.rename(aside)
                warnings.warn(
                    f"a saved training cannot be used and was set aside as {aside}: {error}\n"
                    "The training goes on from an earlier checkpoint, or from its start.",
                    stacklevel=2,
                )
            return None


def _remove(folder: Path) -> None:
    """Gone at once: what a kill leaves of it must not look like a checkpoint."""
    gone = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:12]}.partial")
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
