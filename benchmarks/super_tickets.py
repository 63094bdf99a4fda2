"""``python -m benchmarks.super_tickets``: removed parts, a whole search, the peer; writes RESULTS-super.md.

The page is written again after every piece: what is killed leaves what it has measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.worker import ROOT

#: In the order of what matters most, should time run out.
PIECES = ("search", "removal", "peers", "base-removal", "base-search")
NO_DATA = "Left out: GLUE is not here (`--data-dir FOLDER`), and how long sentences are decides what a search takes."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.super_tickets", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: few steps, numbers mean nothing")
    parser.add_argument("--only", nargs="+", choices=PIECES, default=PIECES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--base-pairs", type=int, default=3, help="pairs of a model of BERT-base's sizes")
    parser.add_argument("--passes", type=int, default=4, help="passes of the search")
    parser.add_argument("--data-dir", type=Path, help="GLUE (default: ../shared/data/glue if it is there)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "RESULTS-super.md")
    chosen = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": str(chosen.threads), "TOKENIZERS_PARALLELISM": "false"}

    # Heavy imports only now: threads are read from the environment when torch is loaded.
    import torch

    from benchmarks import peers, removal, report, super_search
    from benchmarks.importance import BASE, base_model
    from benchmarks.report import Section
    from benchmarks.setting import Setting

    torch.set_num_threads(chosen.threads)
    began, load = datetime.now(UTC), os.getloadavg()[0]
    found = chosen.data_dir or ROOT.parent / "shared" / "data" / "glue"
    data_dir = str(found) if chosen.data_dir or found.is_dir() else None
    setting = Setting(
        model=chosen.model, data_dir=data_dir, tasks=("cola", "rte"), threads=chosen.threads, passes=chosen.passes
    )  # fmt: skip
    if chosen.quick:
        setting = setting.with_(batch_size=2, max_length=32, passes=1, strata=1)
    both = [setting.with_(precision=precision) for precision in ("fp32", "bf16")]
    few = 2 if chosen.quick else 15

    def say(what: str) -> None:
        print(f"{(datetime.now(UTC) - began).total_seconds():6.0f} s  {what}", file=sys.stderr, flush=True)

    def searched() -> Section:
        if data_dir is None:
            return Section("A whole super-ticket search", NO_DATA)
        measured = []
        for one in both:
            say(f"search, {one.model}, {one.precision}")
            measured.append(super_search.search(one, one.model, at_once=len(super_search.SEARCH_WAYS)))
        return super_search.section(measured)

    def searched_base() -> Section:
        if data_dir is None:
            return Section(f"A whole super-ticket search, {BASE}", NO_DATA)
        with tempfile.TemporaryDirectory(prefix="tombola-bench-") as folder:
            super_search.base_folder(Path(folder), lambda: base_model(setting))
            one = setting.with_(model=folder, precision="bf16", passes=min(2, setting.passes), strata=2)
            say(f"search, {BASE}, {one.precision}")
            section = super_search.section([super_search.search(one, BASE, at_once=4)])
        return Section(f"{section.title}, {BASE}", section.body, section.rows)

    def removed(base: bool) -> Section:
        subjects = removal.subjects(setting, 0 if base else chosen.pairs, chosen.base_pairs if base else 0)
        section = removal.section(both, say, subjects, few)
        return Section(f"{section.title}, {subjects[0].name}", section.body, section.rows)

    pieces: dict[str, Callable[[], Section]] = {
        "search": searched,
        "removal": lambda: removed(base=False),
        "peers": lambda: peers.section(both, say, repeats=max(2, few)),
        "base-removal": lambda: removed(base=True),
        "base-search": searched_base,
    }
    sections: list[Section] = []
    for name in PIECES:
        if name not in chosen.only:
            continue
        sections.append(pieces[name]())
        data = "GLUE's train sets (the search), made-up tokens (the rest)"
        header = report.header(
            "cpu", chosen.threads, began, (load, os.getloadavg()[0]), data, "python -m benchmarks.super_tickets"
        )  # fmt: skip
        report.write(chosen.out, header, sections)
        say(f"written: {chosen.out}")


if __name__ == "__main__":
    main()
