"""Killed, torn or refused at every single operation of the store: started again, everything is there, byte for byte."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.engine import faults, toy_steps
from tests.engine.faults import Fault, in_memory
from tests.engine.toy_steps import number_step, total_step

from tombola.engine import attempts, housekeeping
from tombola.engine.held import is_held
from tombola.engine.housekeeping import gc
from tombola.engine.inline import run
from tombola.engine.store import Store
from tombola.plan.graph import Graph
from tombola.plan.step import Step
from tombola.plan.steps import StepKind

__all__ = ["in_memory"]


@dataclass(frozen=True)
class Scenario:
    """``before`` prepares a store undisturbed; ``act`` is what is disturbed, and done again afterwards."""

    act: Callable[[Path], None]
    before: Callable[[Path], None] = lambda root: None
    damaged: str = ""


def timed(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """As a training is: lines of scratch, kept numbers, weights when they are wanted, a rate for the index."""
    (work.scratch / "checkpoint").write_text("so far")
    work.write_json("metrics.json", {"loss": 1.5})
    work.write_lines("metrics.jsonl", [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5}])
    work.timing.update({"training_seconds": 4.0, "optimizer_steps": 2})


def hungry(parameters: Any, inputs: dict[str, Path], sources: Any, work: Any) -> None:
    """Has memory for two examples at a time."""
    if (parameters["numerics"]["micro_batch"] or parameters["recipe"]["batch_size"]) > 2:
        raise MemoryError
    work.write_json("value.json", {"value": parameters["numerics"]["micro_batch"]})


TRAINING = Step(
    "train", 1, {"model": "m", "task": "t", "recipe": {"batch_size": 8}, "numerics": {"micro_batch": None}}
)
HUNGRY = Step("hungry", 1, {"recipe": {"batch_size": 4}, "numerics": {"micro_batch": None}})
NUMBER = number_step(2)
WEIGHTS = NUMBER.out("weights.safetensors")
SUM = Graph((total_step(NUMBER),))
ASKED = Graph((), outputs=(WEIGHTS,))


def sum_up(root: Path) -> None:
    run(SUM, Store(root))


def ask_for_weights(root: Path) -> None:
    run(ASKED, Store(root))


def damage(root: Path) -> None:
    ask_for_weights(root)
    path = Store(root).folder(NUMBER.identity) / "value.json"
    path.write_bytes(path.read_bytes()[:-1])


def heal(root: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "run .* is damaged")
        run(ASKED, Store(root))


def index(root: Path) -> None:
    (Store(root).root / "index" / "rates.jsonl").write_text('{"key": "another", "rate": 1.0}\n')


def sweep(root: Path) -> None:
    gc(Store(root), checkpoints=True, aside=True)


def litter(root: Path) -> None:
    ask_for_weights(root)
    store = Store(root)
    (store.scratch("0" * 64) / "checkpoints").mkdir(parents=True)
    (store.scratch("0" * 64) / "checkpoints" / "step").write_text("half")
    (store.root / "leases" / ("0" * 64)).touch()
    (store.root / "readers" / "dead").touch()
    (store.root / "aside" / "old").mkdir(parents=True)
    (store.root / "index" / ".rates.jsonl.abc.partial").touch()


SCENARIOS = {
    "steps and the drop of what nobody waits for": Scenario(sum_up),
    "a training with a rate": Scenario(lambda root: _run(Graph((TRAINING,)), root), index),
    "weights made again": Scenario(ask_for_weights, sum_up),
    "a damaged run set aside and redone": Scenario(heal, damage, NUMBER.identity),
    "a stand-in for want of memory": Scenario(lambda root: _run(Graph((HUNGRY,)), root)),
    "housekeeping": Scenario(sweep, litter),
}


def _run(graph: Graph, root: Path) -> None:
    run(graph, Store(root))


@pytest.fixture(autouse=True)
def more_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(toy_steps.TOYS, "train", StepKind(1, timed))
    monkeypatch.setitem(toy_steps.TOYS, "hungry", StepKind(1, hungry))
    monkeypatch.setattr(housekeeping, "SECONDS_LEFTOVER", -1.0)


class Trial:
    """One scenario: its undisturbed outcome, and the same with faults."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        self.template = folder / "template"
        with faults.Disk(self.template).watched():
            scenario.before(self.template)
        self.root = folder / "store"
        self._begin()
        self.operations = faults.watch(self.root, lambda: scenario.act(self.root))
        self.expected = contents(self.root)

    def strike(self, fault: Fault) -> int:
        """Run into ``fault``, look at what is left, go on undisturbed, and look again."""
        self._begin()
        where = f"{fault} of {self.operations[fault.at]}"
        code = faults.strike(self.root, lambda: self.scenario.act(self.root), fault)
        if fault.what in ("kill", "after", "torn"):
            assert code == faults.KILLED, where
        whole = nothing_looks_finished_that_is_not(self.root, self.scenario.damaged, where)
        nobody_holds_anything(self.root, where)
        begun = begun_in(self.root)
        with faults.Disk(self.root).watched():
            self.scenario.act(self.root)
        assert contents(self.root) == self.expected, where
        again = {run for run, count in begun_in(self.root).items() if count > begun[run]}
        assert not again & whole, f"{where}: a finished step began again"
        assert no_litter(self.root) == [], where
        return code

    def is_rename(self, fault: Fault) -> bool:
        return self.operations[fault.at].kind in ("rename", "replace")

    def _begin(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        if self.template.exists():
            shutil.copytree(self.template, self.root)


def contents(root: Path) -> dict[tuple[str, str], bytes]:
    """Every file of every run, by its name; timings and what lies beside the runs say nothing of results."""
    store = Store(root)
    return {
        (identity, path.name): path.read_bytes()
        for identity in store
        for path in sorted(store.folder(identity).iterdir())
        if path.name != "timing.jsonl" and not path.name.startswith(".")
    }


def nothing_looks_finished_that_is_not(root: Path, damaged: str, where: str) -> set[str]:
    """The finished runs, every file of them hashed (warnings are errors); ``damaged`` was damaged on purpose."""
    store = Store(root)
    whole = set(store) - {damaged}
    assert [problem for identity in sorted(whole) for problem in store.verify(identity)] == [], where
    return whole


def nobody_holds_anything(root: Path, where: str) -> None:
    for part in ("leases", "readers"):
        for path in (root / part).iterdir() if (root / part).exists() else ():
            assert not is_held(path), f"{where}: {path}"


def begun_in(root: Path) -> Counter[str]:
    """How often each step began, remaking dropped outputs aside."""
    return Counter(
        entry["run"]
        for entry in attempts.read(root)
        if entry["event"] == "began" and "recompute" not in entry
    )


def no_litter(root: Path) -> list[Path]:
    """What is left where nothing should be, after housekeeping."""
    store = Store(root)
    gc(store, keep={(NUMBER.identity, "weights.safetensors")})
    places = [*(root / "running").iterdir(), *(root / "leases").iterdir(), *(root / "readers").iterdir()]
    return [*places, *root.rglob("*.partial")]


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_any_operation_nothing_is_lost(name, in_memory):
    trial = Trial(SCENARIOS[name], in_memory)
    assert len(trial.operations) > 5
    # Killed after one operation is killed before the next, but for the renames, which decide, both are tried.
    after = [fault for fault in faults.faults_for(trial.operations, ("after",)) if trial.is_rename(fault)]
    for fault in [*faults.faults_for(trial.operations, ("kill", "torn")), *after]:
        trial.strike(fault)


@pytest.mark.parametrize(("error", "every"), [("EIO", 1), ("ENOSPC", 2), ("EROFS", 3)])
@pytest.mark.parametrize("name", SCENARIOS)
def test_refused_by_the_disk_at_any_operation_it_says_so_and_goes_on_later(name, error, every, in_memory):
    trial = Trial(SCENARIOS[name], in_memory)
    codes = Counter(trial.strike(fault) for fault in faults.faults_for(trial.operations, (error,))[::every])
    assert set(codes) <= {faults.CLEAR, faults.ENDED}
    assert codes[faults.CLEAR] > 0 or error == "EIO", "a disk that is full or read-only is not passed over"


@pytest.mark.parametrize("name", ["steps and the drop of what nobody waits for", "weights made again"])
def test_whatever_is_renamed_into_place_was_flushed_before_and_its_folder_after(name, in_memory):
    """What a loss of power would leave: no name without its bytes, and no finished run without its name."""
    trial = Trial(SCENARIOS[name], in_memory)
    unflushed: set[Path] = set()
    for operation in trial.operations:
        if operation.kind == "write":
            unflushed.add(operation.path)
        elif operation.kind == "fsync":
            unflushed.discard(operation.path)
        elif operation.target is not None and operation.target.suffix != ".partial":
            inside = {path for path in unflushed if operation.path in (path, *path.parents)}
            assert not inside, operation
            unflushed.add(operation.target.parent)
    shelves = {path for path in unflushed if len(path.relative_to(trial.root).parts[0]) == 2}
    assert {path.name for path in shelves} <= {"timing.jsonl"}
