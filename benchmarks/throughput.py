"""Two local workers against one: how much more of a study of tiny trainings gets done in the same time."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.report import Row, Section, table
from benchmarks.timing import alternating, median_interval, spread

TRAININGS = 12
SENTENCES = 512


def section(pairs: int) -> Section:
    """``pairs`` interleaved runs of the same graph with one worker and with two."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    whole: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="tombola-bench-") as folder:
        graph = _graph(Path(folder))
        for turn in range(pairs):
            for name in alternating(("1", "2"), turn):
                working, all_of_it = _run(graph, Path(folder) / f"store-{turn}-{name}", int(name))
                seconds[int(name)].append(working)
                whole[int(name)].append(all_of_it)
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    with_start = [one / two for one, two in zip(whole[1], whole[2], strict=True)]
    body = "\n\n".join(
        [
            f"{TRAININGS} trainings of a random BERT (2 layers, hidden 128) on {SENTENCES} sentences, one thread each, "
            f"through the `local` engine; {pairs} interleaved pairs. Time from the first training's beginning to the "
            "last one's end; the second row includes starting the workers (loading torch and transformers).",
            table(
                ("", "one worker, s", "two workers, s", "times faster"),
                [
                    ("trainings", spread(seconds[1]), spread(seconds[2]), spread(ratios)),
                    ("with start", spread(whole[1]), spread(whole[2]), spread(with_start)),
                ],
            ),
        ]
    )
    row = Row(
        "two local workers against one, tiny trainings",
        spread(ratios),
        median_interval(ratios)[0],
        target=1.8,
    )
    return Section("Throughput of the local engine", body, (row,))


def _graph(folder: Path):
    """Independent trainings, as many as seeds."""
    from tombola.plan.defaults import make_numerics, make_recipe
    from tombola.plan.graph import Graph
    from tombola.plan.materials import problem
    from tombola.plan.trainings import dense_training
    from tombola.tasks.task import DataOptions

    _tiny_model(folder / "model")
    whole = problem(
        str(folder / "model"),
        None,
        "rotten-tomatoes",
        DataOptions(max_train=SENTENCES, max_eval=100),
        make_recipe("rotten-tomatoes", epochs=4, batch_size=16, max_length=64),
        make_numerics("fp32", "cpu", 1),
    )
    return Graph(tuple(dense_training(whole, seed) for seed in range(TRAININGS)))


def _tiny_model(folder: Path) -> None:
    """A random BERT with the tokenizer of the embedded model."""
    import torch
    from transformers import AutoConfig, AutoModel

    from tombola.models.resolve import resolve

    source = resolve("minilm-l6").folder
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    AutoModel.from_config(AutoConfig.from_pretrained(source, **sizes)).save_pretrained(folder)
    for path in source.glob("*token*"):
        shutil.copy(path, folder / path.name)
    shutil.copy(source / "vocab.txt", folder)


def _run(graph, root: Path, workers: int) -> tuple[float, float]:
    """Seconds from the first beginning to the last end, and seconds of the whole call."""
    from tombola.engine.local import Local
    from tombola.engine.protocol import Silent
    from tombola.engine.scheduling import bring_about
    from tombola.engine.store import Store

    marks: list[float] = []

    class Clock(Silent):
        def began(self, step) -> None:
            marks.append(time.perf_counter())

        def ended(self, step, seconds: float) -> None:
            marks.append(time.perf_counter())

    began = time.perf_counter()
    store = Store(root)
    bring_about(graph, store, Local(store.root, workers), Clock())
    return marks[-1] - marks[0], time.perf_counter() - began
