"""How long ``--help`` takes, and that it does not import torch."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.report import Row, Section, table
from benchmarks.timing import alternating, seconds_of, spread

COMMANDS = {"tombola --help": ["--help"], "tombola find --help": ["find", "--help"]}
#: Runs the command in this process and says which heavy modules it has brought along.
LOOKS = """
import sys
from tombola.cli.app import main
sys.argv = ["tombola", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print("IMPORTED", *(name for name in ("torch", "transformers", "sklearn", "scipy") if name in sys.modules))
"""


def section(times: int = 15) -> Section:
    script = Path(sys.executable).parent / "tombola"
    start = [str(script)] if script.exists() else [sys.executable, "-m", "tombola"]
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(times + 1):
        for name in alternating(tuple(COMMANDS), turn):
            run = partial(subprocess.run, [*start, *COMMANDS[name]], check=True, capture_output=True)
            taken = seconds_of(run)
            if turn:  # the first ones fill the disk's cache
                seconds[name].append(taken)
    rows, lines = [], []
    for name, values in seconds.items():
        heavy = heavy_imports(COMMANDS[name])
        median = float(np.median(values))
        rows.append(Row(f"`{name}`, seconds", spread(values), median, 0.3, at_most=True))
        lines.append((f"`{name}`", spread(values), f"{max(values):.2f}", ", ".join(heavy) or "none"))
    head = ("command", "seconds, median", "slowest", "of torch, transformers, sklearn, scipy imported")
    return Section("Time to help", table(head, lines), rows)


def heavy_imports(arguments: list[str]) -> list[str]:
    """Which of the heavy libraries the command imports."""
    done = subprocess.run(
        [sys.executable, "-c", LOOKS, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.rsplit("IMPORTED", 1)[1].split()
