"""``python -m benchmarks``: measure everything and write RESULTS.md."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.worker import ROOT

#: fp32 steps take longer: fewer of them.
PASSES = {"fp32": 2, "bf16": 2}

METHOD = """\
Method: every way of training runs in a process of its own and takes one step when it is its turn, the order
of the ways alternating; a step's time is the wall clock from one step's end to the next, input pipeline included.
Batches are of {batch} examples, a stratified sample (by width) of each task's epoch; {passes} passes
of {strata} batches a task for each way. Ratios are of a pass's mean steps: median (lowest–highest) of the passes;
where there are six pairs or more, the median with its 95 % bootstrap interval.
Model `{model}`, a one-shot magnitude mask of {sparsity:.0%}.

- ours: tombola's training loop as it is (buckets, padding to the longest, fused AdamW, FixedMask).
- the papers' way: random order, padded to {length}, the mask multiplied in every forward pass by
  `torch.nn.utils.prune`, AdamW with `foreach=False, fused=False`. All its batches are the same work, so it takes one
  step a task and pass, and its mean over tasks is compared.
- Trainer: transformers' own loop with `TicketCallback`. Default: random order, padding to the longest, fused AdamW
  (its default). Best: batches of its `group_by_length` (mega-batches of 50 as in a long epoch), no
  logging, saving or NaN filter, no loader workers. Both without a progress bar and without accumulation.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: few steps, numbers mean nothing")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="minilm-l6")
    parser.add_argument("--data-dir", type=Path, help="GLUE (default: ../shared/data/glue if it is there)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "RESULTS.md")
    chosen = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": str(chosen.threads), "TOKENIZERS_PARALLELISM": "false"}

    # Heavy imports only now: threads are read from the environment when torch is loaded.
    import torch

    from benchmarks import fine_tuning, fixed_mask, gemm_roof, help_time, importance, mask_on_disk, report
    from benchmarks.setting import Setting

    torch.set_num_threads(chosen.threads)
    began, load = datetime.now(UTC), os.getloadavg()[0]
    found = chosen.data_dir or ROOT.parent / "shared" / "data" / "glue"
    setting = Setting(
        model=chosen.model,
        data_dir=str(found) if chosen.data_dir or found.is_dir() else None,
        device=chosen.device,
        threads=chosen.threads,
    )
    if chosen.quick:
        setting = setting.with_(tasks=("cola",), batch_size=2, strata=1)

    def say(what: str) -> None:
        print(f"{(datetime.now(UTC) - began).total_seconds():6.0f} s  {what}", file=sys.stderr, flush=True)

    few = 2 if chosen.quick else 15
    say("time to help")
    help_section = help_time.section(few)
    say("mask on disk")
    disk_section = mask_on_disk.section(setting)
    passes = {"fp32": 1, "bf16": 1} if chosen.quick else PASSES
    precisions = [setting.with_(precision=name, passes=passes[name]) for name in passes]
    say("roof")
    roofs = {one.precision: gemm_roof.roof(one, few) for one in precisions}
    measured = []
    for one in precisions:
        say(f"fine-tuning, {one.precision}")
        measured.append(fine_tuning.measure(one))
    say("fixed mask")
    own = fixed_mask.alone(setting, 2 * few)
    scores_section = (
        importance.section(precisions, say, pairs=1, base_pairs=0)
        if chosen.quick
        else importance.section(precisions, say)
    )
    say("profiles")
    profiles = "\n\n".join(gemm_roof.profiles(one, steps=1 if chosen.quick else 3) for one in precisions)
    sections = [
        *(fine_tuning.section(times) for times in measured),
        *(fine_tuning.trainer_section(times) for times in measured),
        fixed_mask.section(own, measured),
        scores_section,
        disk_section,
        help_section,
        gemm_roof.section(roofs, [(t, fine_tuning.widths(t.setting)) for t in measured], profiles),
    ]
    data = "GLUE's train sets" if setting.data_dir else "token lengths drawn from the known distributions"
    header = report.header(chosen.device, chosen.threads, began, (load, os.getloadavg()[0]), data)
    method = METHOD.format(
        batch=setting.batch_size,
        passes=" and ".join(f"{count} ({name})" for name, count in passes.items()),
        strata=setting.strata,
        model=setting.model,
        sparsity=setting.sparsity,
        length=setting.max_length,
    )
    report.write(chosen.out, f"{header}\n\n{method}", sections)
    say(f"written: {chosen.out}")


if __name__ == "__main__":
    main()
