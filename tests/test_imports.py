"""The way of data is one way: imports go downwards only, lazy ones included; and importing tombola costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tombola

SOURCE = Path(tombola.__file__).parent
#: The ticket's own files.
TICKET = {
    *("ticket", "ticket_card", "ticket_folder", "ticket_mask", "ticket_model"),
    *("ticket_structure_words", "ticket_text", "ticket_weight_words"),
}
#: From the bottom to the top. A room may import what stands below it, never its neighbour.
LEVELS = [
    {"errors", "streams", "canonical", "files"},
    {"masks"},
    {"models"},
    {"auto"},
    {*TICKET, "tasks"},
    {"training"},
    {"scores", "deploy"},
    {"plan"},
    {"verifying"},
    {"finding"},
    {"engine"},
    {"super_search"},
    {"api"},
    {"studies"},
    {"report"},
    {"cli"},
    {"__init__", "__main__"},
]
#: Within the ground and the ticket's own files anything goes; rooms of one level know nothing of each other.
TOGETHER = {"errors", "streams", "canonical", "files", *TICKET}
LEVEL = {room: height for height, rooms in enumerate(LEVELS) for room in rooms}


def room_of(path: Path) -> str:
    part = path.relative_to(SOURCE).parts[0]
    return part.removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Every room that a file imports anywhere, except for types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    rooms = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tombola":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {name.name.split(".")[1] for name in node.names if name.name.startswith("tombola.")}
    return rooms - {"__version__"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_downwards_only(path):
    here = room_of(path)
    for room in imported_rooms(path):
        if room == here or {room, here} <= TOGETHER:
            continue
        assert LEVEL[room] < LEVEL[here], f"{here} imports {room}"


def test_every_room_has_a_level():
    rooms = {room_of(path) for path in SOURCE.rglob("*.py")}
    assert rooms == set(LEVEL)


def test_no_module_is_named_like_another_package():
    taken = set(sys.stdlib_module_names) | {
        "torch",
        "transformers",
        "datasets",
        "tokenizers",
        "numpy",
        "scipy",
        "ray",
        "mlflow",
        "yaml",
        "pydantic",
        "matplotlib",
    }
    names = {path.stem for path in SOURCE.rglob("*.py")} - {"__init__", "__main__"}
    assert names & taken == set()


VERBS = (
    "find",
    "verify",
    "bench",
    "export",
    "study",
    "recipes",
    "store",
    "inspect",
    "quickstart",
    "tasks",
    "models",
    "methods",
)


@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS), ["store", "ls"], ["store", "gc"]])
def test_help_loads_neither_torch_nor_transformers(verb):
    code = (
        "import sys; from tombola.cli.app import app; sys.argv = ['tombola', *sys.argv[1:]]\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'scipy', 'sklearn', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code, *verb, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_import_tombola_loads_nothing_and_its_names_are_there():
    code = "import sys, tombola; assert 'torch' not in sys.modules; print(tombola.__all__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in tombola.__all__:
        assert getattr(tombola, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tombola.nothing


def test_planning_a_study_needs_no_torch():
    """A finished study answers in under a second: torch alone takes longer to load."""
    code = (
        "import sys\n"
        "import tombola.studies.existence, tombola.studies.transfer, tombola.studies.carrying_out\n"
        "import tombola.studies.phases, tombola.studies.super_tables\n"
        "import tombola.report.writing, tombola.engine.inline, tombola.engine.local\n"
        "heavy = {'torch', 'transformers', 'scipy', 'sklearn', 'pyarrow', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
