"""``python -m benchmarks.engine``: planning, sharing and the local engine's workers; writes RESULTS-engine.md."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.worker import ROOT


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: few steps, numbers mean nothing")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "RESULTS-engine.md")
    chosen = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

    from benchmarks import planning, report, sharing, throughput

    began, load = datetime.now(UTC), os.getloadavg()[0]

    def say(what: str) -> None:
        print(f"{(datetime.now(UTC) - began).total_seconds():6.0f} s  {what}", file=sys.stderr, flush=True)

    say("planning")
    sections = [planning.section(2_000 if chosen.quick else 100_000)]
    say("sharing")
    sections.append(sharing.section())
    say("throughput")
    sections.append(throughput.section(1 if chosen.quick else 5))
    data = "made-up plans, and rotten-tomatoes' sentences"
    header = report.header(
        "cpu", 1, began, (load, os.getloadavg()[0]), data, command="python -m benchmarks.engine"
    )
    report.write(chosen.out, header, sections)
    say(f"written: {chosen.out}")


if __name__ == "__main__":
    main()
