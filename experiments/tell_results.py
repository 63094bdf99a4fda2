"""From the results of an experiment to its tables and its figure.

    python -m experiments.tell_results docs/results/imp-random.json docs/results

writes ``imp-random.md`` and ``imp-random.png`` beside the numbers they were made from.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

COLOURS = {"imp": "#1b6ca8", "random": "#c0504d"}


def table(task: dict[str, Any]) -> str:
    """One task: a line a sparsity."""
    full = task["full"]["summary"]
    lines = [
        f"### {task['task']} ({task['metric']}), learning rate {task['learning_rate']:g}, "
        f"{task['train_examples']:,} train, {task['dev_examples']:,} dev, majority class {task['majority']:.1f}",
        "",
        f"Full model: **{text(full)}** (median {full['median']:.1f}, best {full['best']:.1f})",
        "",
        "| sparsity | IMP | random | IMP − random | 95 % | p | IMP − full | p | winning by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for sparsity, level in task["levels"].items():
        gain, loss = level["imp_minus_random"], level["imp_minus_full"]
        beats = gain["interval"]["low"] > 0 and p_of(gain) is not None and p_of(gain) < 0.05
        winning = [name for name, holds in level["criteria"].items() if holds]
        difference = f"{gain['difference']['mean']:+.1f}"
        lines.append(
            f"| {float(sparsity):.0%} | {text(level['imp']['summary'])} | {text(level['random']['summary'])} "
            f"| {f'**{difference}**' if beats else difference} "
            f"| [{gain['interval']['low']:+.1f}, {gain['interval']['high']:+.1f}] | {p_text(gain)} "
            f"| {loss['difference']['mean']:+.1f} | {p_text(loss)} | {', '.join(winning) or '–'} |"
        )
    return "\n".join(lines)


def runs(task: dict[str, Any]) -> str:
    """Every run: its id and score, seed by seed."""
    lines = ["| row | " + " | ".join(f"seed {seed}" for seed in task["seeds"]) + " |", "|---" * 6 + "|"]
    rows = {"full": task["full"]}
    for sparsity, level in task["levels"].items():
        rows |= {f"{method} {float(sparsity):.0%}": level[method] for method in ("imp", "random")}
    for name, row in rows.items():
        cells = [f"{score:.2f} `{run}`" for score, run in zip(row["scores"], row["runs"], strict=True)]
        lines.append(f"| {task['task']} {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def text(summary: dict[str, Any]) -> str:
    return f"{summary['mean']:.1f} ± {summary['std']:.1f}"


def p_of(comparison: dict[str, Any]) -> float | None:
    return comparison["t_test"]["p_value"]


def p_text(comparison: dict[str, Any]) -> str:
    p_value = p_of(comparison)
    return "–" if p_value is None else "<.001" if p_value < 0.001 else f"{p_value:.3f}"


def figure(tasks: list[dict[str, Any]], path: Path) -> None:
    """Score against sparsity, mean and one standard deviation; the full model as a grey band."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawing, panels = plt.subplots(1, len(tasks), figsize=(4.2 * len(tasks), 3.6), layout="constrained")
    for panel, task in zip(panels, tasks, strict=True):
        full = task["full"]["summary"]
        panel.axhspan(full["mean"] - full["std"], full["mean"] + full["std"], color="0.88", lw=0)
        panel.axhline(full["mean"], color="0.45", lw=1, label="full model")
        panel.axhline(task["majority"], color="0.45", lw=1, ls=":", label="majority class")
        levels = [100 * float(sparsity) for sparsity in task["levels"]]
        for method, name in (("imp", "IMP"), ("random", "random")):
            summaries = [level[method]["summary"] for level in task["levels"].values()]
            means = [summary["mean"] for summary in summaries]
            panel.plot(levels, means, marker="o", ms=4, color=COLOURS[method], label=name)
            panel.fill_between(
                levels,
                [mean - summary["std"] for mean, summary in zip(means, summaries, strict=True)],
                [mean + summary["std"] for mean, summary in zip(means, summaries, strict=True)],
                color=COLOURS[method],
                alpha=0.18,
                lw=0,
            )
        panel.set_title(f"{task['task']} ({task['metric']})")
        panel.set_xlabel("sparsity (% of prunable weights)")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("dev score, mean ± std over 5 seeds")
    panels[0].legend(frameon=False, fontsize=8, loc="upper right")
    drawing.savefig(path, dpi=140)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    found = json.loads(options.results.read_text())
    tasks = found["tasks"]
    figure(tasks, options.out / f"{options.results.stem}.png")
    pilot = ", ".join(f"{run['task']} {run['learning_rate']:g}: {run['score']:.1f}" for run in found["pilot"])
    parts = [
        "<!-- written by experiments/tell_results.py; do not edit -->",
        f"![Score against sparsity]({options.results.stem}.png)",
        f"Environment: `{json.dumps(tasks[0]['environment'], sort_keys=True)}`",
        f"Numerics: `{json.dumps(tasks[0]['numerics'], sort_keys=True)}`",
        f"Pilot (full model, seed 100; learning rate: score): {pilot}",
        *(table(task) for task in tasks),
        "### Every run\n\nScore and first twelve digits of the run's identity in the store.",
        *(runs(task) for task in tasks),
    ]
    (options.out / f"{options.results.stem}.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
