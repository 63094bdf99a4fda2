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
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tombola import files
from tombola.engine.held import Held, hold
from tombola.engine.work import OutputOf, Work
from tombola.errors import CorruptArtifact, StoreError, TombolaError
from tombola.plan.step import Ref

FORMAT = 1
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
        for number in range(256):
            with contextlib.suppress(FileNotFoundError):
                found.update(name for name in os.listdir(self.root / f"{number:02x}") if len(name) == 64)
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

    def verify(self, identity: str) -> list[str]:
        """Hash every file of a run again; the problems found, none if it is whole."""
        run = self.run(identity)
        if run is None:
            return [f"{identity}: no finished run"]
        problems = []
        try:
            if files.read_json(run.folder / "spec.json") is None or self._spec_digest(run) != identity:
                problems.append(f"{identity}: spec.json does not describe this run")
        except CorruptArtifact as problem:
            problems.append(f"{identity}: {problem.what}")
        for name, output in run.outputs.items():
            path = run.folder / name
            if output.transient and not path.exists():
                continue
            self._verified.pop(path, None)
            try:
                self._verify_file(path, output)
            except CorruptArtifact as problem:
                problems.append(f"{identity}: {problem.what}")
        return problems

    def _spec_digest(self, run: Run) -> str:
        from tombola.canonical import digest

        return digest(files.read_json(run.folder / "spec.json"))

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
        target = self.folder(work.identity)
        if target.exists():
            # Outputs made again or for the first time: each file is moved in whole, the manifest comes last. At
            # every moment the folder is a finished run; the kept files were proved equal before.
            for name, output in outputs.items():
                if output.transient and (staging / name).is_file():
                    os.replace(staging / name, target / name)
            files.fsync_folder(target)
            files.write_json(target / "manifest.json", manifest)
        else:
            files.write_json(staging / "spec.json", work.specification)
            files.write_json(staging / "manifest.json", manifest)
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
        shutil.rmtree(self.scratch(work.identity), ignore_errors=True)
        run = self.run(work.identity)
        if run is None:
            raise StoreError(
                f"run {work.identity[:12]} did not verify after it was written", where=str(target)
            )
        return run

    def note_timing(self, identity: str, entry: Mapping[str, Any]) -> None:
        """Append seconds and machine to a file that no manifest covers."""
        with open(self.folder(identity) / "timing.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(dict(entry), sort_keys=True) + "\n")

    def timing(self, identity: str) -> list[dict[str, Any]]:
        path = self.folder(identity) / "timing.jsonl"
        if not path.is_file():
            return []
        entries = []
        for line in path.read_text(encoding="utf-8").splitlines():
            # A line torn by a kill says nothing, and nothing depends on it.
            with contextlib.suppress(json.JSONDecodeError):
                entries.append(json.loads(line))
        return entries

    def set_aside(self, identity: str, reason: str) -> None:
        """Move a run that does not verify out of the way, and say so."""
        (self.root / "aside").mkdir(exist_ok=True)
        for number in range(1_000_000):
            target = self.root / "aside" / f"{identity}-{number}"
            if not target.exists():
                break
        else:
            raise StoreError("too many damaged copies of one run", where=str(self.root / "aside"))
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.folder(identity), target)
            warnings.warn(
                f"run {identity[:12]} is damaged ({reason}); it was moved to {target} and will be computed again",
                stacklevel=2,
            )

    # -- checking -----------------------------------------------------------------------------------------------

    def _checked_run(self, identity: str, folder: Path) -> Run:
        manifest = files.read_json(folder / "manifest.json")
        try:
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
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptArtifact(f"the manifest lacks or misspells {error}") from None
        if not (folder / "spec.json").is_file():
            raise CorruptArtifact("spec.json is missing")
        for name, output in outputs.items():
            try:
                size = (folder / name).stat().st_size
            except FileNotFoundError:
                if output.transient:
                    continue
                raise CorruptArtifact(f"{name} is missing") from None
            if size != output.size:
                raise CorruptArtifact(f"{name} has {size} bytes instead of {output.size}")
        return Run(identity, folder, outputs, environment, substitutes)

    def _verify_file(self, path: Path, output: Output) -> None:
        status = path.stat()
        stamp = (status.st_size, status.st_mtime_ns)
        if self._verified.get(path) == stamp:
            return
        if files.sha256_of(path) != output.sha256:
            raise CorruptArtifact(f"{path.name} does not have the bytes its manifest promises")
        self._verified[path] = stamp
