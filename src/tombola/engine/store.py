"""The content-addressed store: one folder a run, named by the identity of its step.

    <root>/ab/abcd…/   spec.json  outputs…  manifest.json      a finished run
    <root>/ab/abcd…/timing.jsonl                               seconds and machine: told, never hashed
    <root>/running/abcd…/                                      scratch of a run under way (checkpoints live here)
    <root>/leases/abcd…                                        held by the process that computes the run
    <root>/readers/…                                           held by a process; lists the outputs it still reads
    <root>/substitutes/abcd….json                              another run stands in for this one (substitutes.py)
    <root>/aside/abcd…-N/                                      did not verify: kept to be looked at, never read
    <root>/attempts.jsonl                                      append-only: what was begun and ended, when, by whom
    <root>/index/…                                             may be deleted at any time; it comes back

A run is done only if its manifest verifies. Publishing is atomic: the folder is complete and flushed before a single
rename puts it in its place. A manifest lists every output with size and SHA-256; a *transient* output (weights) may
be dropped later and leaves its hash behind, so that a recomputation can be checked against it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tombola import files
from tombola.canonical import digest
from tombola.engine.held import Held, hold
from tombola.engine.work import OutputOf, Work
from tombola.errors import CorruptArtifact, StoreError, TombolaError
from tombola.plan.step import Ref

FORMAT = 1
SPECIFICATION = "spec.json"
MANIFEST = "manifest.json"
MANIFEST_KEYS = {"format", "identity", "outputs", "environment", "substitutes", "digest"}
PARTS = ("running", "leases", "readers", "substitutes", "index")


@dataclass(frozen=True)
class Output:
    """One output file as the manifest records it."""

    size: int
    sha256: str
    transient: bool


@dataclass(frozen=True)
class Run:
    """A finished run: its identity, its folder, and what its manifest says."""

    identity: str
    folder: Path
    outputs: Mapping[str, Output]
    environment: Mapping[str, Any]
    substitutes: str | None = None

    def has(self, output: str) -> bool:
        """Whether the file of this output is there now (a transient one may have been dropped)."""
        return output in self.outputs and (self.folder / output).is_file()


class DamagedInput(StoreError):
    """A stored run did not verify when it was read and was set aside: whoever needs it must have it made again."""


class Store:
    """A folder of runs. Safe for several processes; on one local disk no two of them ever run a step twice."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).expanduser()
        self._verified: dict[Path, tuple[int, int]] = {}
        try:
            for part in PARTS:
                (self.root / part).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the store cannot be used ({error.strerror})",
                where=str(self.root),
                todo="choose another folder with --store DIR or TOMBOLA_STORE",
            ) from None

    # -- reading ------------------------------------------------------------------------------------------------

    def folder(self, identity: str) -> Path:
        return self.root / identity[:2] / identity

    def scratch(self, identity: str) -> Path:
        """Where a run under way keeps its checkpoints; survives a kill, removed on publishing."""
        return self.root / "running" / identity

    def run(self, identity: str) -> Run | None:
        """The finished run, or None; a folder that does not verify is set aside, and said."""
        folder = self.folder(identity)
        if not folder.exists():
            return None
        try:
            return self._checked_run(identity, folder)
        except CorruptArtifact as problem:
            self.set_aside(identity, str(problem.what))
            return None

    def is_there(self, identity: str, outputs: frozenset[str] | set[str] = frozenset()) -> bool:
        """Whether the run is finished and these of its transient outputs are at hand."""
        run = self.run(identity)
        return run is not None and all(run.has(name) for name in outputs)

    def published(self) -> set[str]:
        """Identities of all runs that have a folder, by one look at every shelf: a folder appears only when whole."""
        found: set[str] = set()
        for shelf in os.listdir(self.root):
            if len(shelf) != 2:
                continue
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found.update(name for name in os.listdir(self.root / shelf) if len(name) == 64)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.published()))

    def read_json(self, ref: Ref | OutputOf) -> Any:
        """The JSON output that ``ref`` names, checked against its manifest."""
        return files.read_json(self.path(ref))

    def path(self, ref: Ref | OutputOf) -> Path:
        """The path of an output, its bytes checked once against the manifest, then trusted by size and time."""
        identity, output = (ref.step.identity, ref.output) if isinstance(ref, Ref) else ref
        run = self.run(identity)
        if run is None:
            raise DamagedInput(f"the run {identity[:12]} is not in the store", where=str(self.root))
        if not run.has(output):
            raise self._dropped(identity, output)
        try:
            self._verify_specification(run)
            self._verify_file(run.folder / output, run.outputs[output])
        except FileNotFoundError:
            raise self._dropped(identity, output) from None
        except CorruptArtifact as problem:
            self.set_aside(identity, problem.what)
            raise DamagedInput(
                f"output '{output}' of run {identity[:12]} is damaged; the run was set aside",
                where=str(run.folder),
                todo="run the same command again: the engine computes it anew",
            ) from None
        return run.folder / output

    def verify(self, identity: str, *, aside: bool = False) -> list[str]:
        """Hash every file of a run again; the problems found, none if it is whole. ``aside`` sets it aside then."""
        run = self.run(identity)
        if run is None:
            return [f"{identity}: no finished run"]
        problems = []
        for name, output in {SPECIFICATION: None, **run.outputs}.items():
            path = run.folder / name
            self._verified.pop(path, None)
            try:
                if output is None:
                    self._verify_specification(run)
                else:
                    self._verify_file(path, output)
            except FileNotFoundError:
                if output is None or not output.transient:
                    problems.append(f"{identity}: {name} is missing")
            except (CorruptArtifact, OSError) as problem:
                told = problem.what if isinstance(problem, CorruptArtifact) else f"{name}: {problem.strerror}"
                problems.append(f"{identity}: {told}")
        if problems and aside:
            self.set_aside(identity, problems[0].partition(": ")[2])
        return problems

    def _dropped(self, identity: str, output: str) -> StoreError:
        return DamagedInput(
            f"output '{output}' of run {identity[:12]} was dropped (it is transient)",
            where=str(self.folder(identity)),
            todo="run its plan again: the engine recomputes it",
        )

    # -- writing ------------------------------------------------------------------------------------------------

    def lease(self, identity: str) -> Held | None:
        """The right to compute a run, or None while a living process has it."""
        return hold(self.root / "leases" / identity)

    def publish(
        self, work: Work, staging: Path, outputs: Mapping[str, Output], environment: Mapping[str, Any]
    ) -> Run:
        """Make ``staging`` the finished run of ``work``: manifest last, everything flushed, one rename."""
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "identity": work.identity,
            "outputs": {name: vars(output) for name, output in sorted(outputs.items())},
            "environment": dict(environment),
        }
        if work.substitutes is not None:
            manifest["substitutes"] = work.substitutes
        # Over the values, so that a bit flipped in a hash that nothing else can prove is found at once.
        manifest["digest"] = digest(manifest)
        files.write_json(staging / MANIFEST, manifest)
        target = self.folder(work.identity)
        if target.exists():
            # Outputs made again or for the first time: each file is moved in whole, the manifest comes last. At
            # every moment the folder is a finished run; the kept files that it has were proved equal before.
            for name, output in outputs.items():
                if (staging / name).is_file() and (output.transient or not (target / name).exists()):
                    os.replace(staging / name, target / name)
            files.fsync_folder(target)
            os.replace(staging / MANIFEST, target / MANIFEST)
            files.fsync_folder(target)
        else:
            files.write_json(staging / SPECIFICATION, work.specification)
            if not target.parent.exists():
                target.parent.mkdir(exist_ok=True)
                files.fsync_folder(self.root)
            try:
                os.rename(staging, target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                # A process on another machine, whose lease could not be seen, was first: the same run, done.
            files.fsync_folder(target.parent)
        self.clear_scratch(work.identity)
        run = self.run(work.identity)
        if run is None:
            raise StoreError(
                f"run {work.identity[:12]} did not verify after it was written", where=str(target)
            )
        return run

    def clear_scratch(self, identity: str) -> None:
        """Remove what a run kept for itself while it was made; gone at once, so that no half of it is ever met."""
        scratch = self.scratch(identity)
        gone = scratch.with_name(f".{identity}-{uuid.uuid4().hex[:12]}.partial")
        with contextlib.suppress(OSError):
            os.rename(scratch, gone)
            shutil.rmtree(gone, ignore_errors=True)

    def note_timing(self, identity: str, entry: Mapping[str, Any]) -> None:
        """Append seconds and machine to a file that no manifest covers; a disk too full for it is no harm."""
        with contextlib.suppress(OSError):
            files.append_line(self.folder(identity) / "timing.jsonl", json.dumps(dict(entry), sort_keys=True))

    def timing(self, identity: str) -> list[dict[str, Any]]:
        return files.json_lines(self.folder(identity) / "timing.jsonl")

    def set_aside(self, identity: str, reason: str) -> None:
        """Move a run that does not verify out of the way, and say so."""
        numbers = count()
        try:
            (self.root / "aside").mkdir(exist_ok=True)
            while (target := self.root / "aside" / f"{identity}-{next(numbers)}").exists():
                pass
            os.rename(self.folder(identity), target)
        except FileNotFoundError:
            return  # somebody else was first
        except OSError as error:
            raise StoreError(
                f"run {identity[:12]} is damaged ({reason}) and cannot be set aside ({error.strerror})",
                where=str(self.folder(identity)),
                todo="see that the store can be written, or delete this folder",
            ) from None
        warnings.warn(
            f"run {identity[:12]} is damaged ({reason}); it was moved to {target} and will be computed again",
            stacklevel=2,
        )

    # -- checking -----------------------------------------------------------------------------------------------

    def _checked_run(self, identity: str, folder: Path) -> Run:
        manifest = files.read_json(folder / MANIFEST)
        try:
            # Stores of before the digest have none.
            promised = manifest.pop("digest", None)
            if promised is not None and promised != digest(manifest):
                raise CorruptArtifact("the manifest is not the one that was written")
            if manifest["format"] > FORMAT:
                raise TombolaError(
                    f"run {identity[:12]} was written by a newer tombola (format {manifest['format']})",
                    where=str(folder),
                    todo="upgrade tombola, or use another store",
                )
            outputs = {name: Output(**entry) for name, entry in manifest["outputs"].items()}
            if manifest["identity"] != identity:
                raise CorruptArtifact(f"the manifest names another run, {manifest['identity'][:12]}")
            environment = manifest["environment"]
            substitutes = manifest.get("substitutes")
            for key in manifest.keys() - MANIFEST_KEYS:
                raise CorruptArtifact(f"the manifest has a strange key, {key!r}")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptArtifact(f"the manifest lacks or misspells {error}") from None
        for name, output in {SPECIFICATION: None, **outputs}.items():
            try:
                size = (folder / name).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                if output is not None and output.transient:
                    continue
                raise CorruptArtifact(f"{name} is missing") from None
            if output is not None and size != output.size:
                raise CorruptArtifact(f"{name} has {size} bytes instead of {output.size}")
        return Run(identity, folder, outputs, environment, substitutes)

    def _verify_specification(self, run: Run) -> None:
        """The identity of a run is the hash of its specification."""
        path = run.folder / SPECIFICATION
        stamp = _stamp(path)
        if self._verified.get(path) == stamp:
            return
        try:
            found = digest(files.read_json(path))
        except (TypeError, ValueError):
            found = ""
        if found != run.identity:
            raise CorruptArtifact(f"{SPECIFICATION} does not describe this run")
        self._verified[path] = stamp

    def _verify_file(self, path: Path, output: Output) -> None:
        stamp = _stamp(path)
        if self._verified.get(path) == stamp:
            return
        if files.sha256_of(path) != output.sha256:
            raise CorruptArtifact(f"{path.name} does not have the bytes its manifest promises")
        self._verified[path] = stamp


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
