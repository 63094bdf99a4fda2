"""torch-pruning, a structural pruner from PyPI, on the same BERT: what each of the two produces.

It is no dependency: ``pip install --no-deps --target FOLDER torch-pruning``, then ``PYTHONPATH=FOLDER python -m
benchmarks.super_tickets --only peers``. Where it is not installed, the section says so and nothing else.
"""

from __future__ import annotations

import ast
import copy
import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import tombola
from benchmarks.peer_facts import Fact, facts, quiet, same
from benchmarks.report import Row, Section, table
from benchmarks.setting import Setting, fresh_model
from tombola.deploy.latency import LatencyTable, latency
from tombola.masks.levels import drawn
from tombola.models.anatomy import anatomy_of
from tombola.models.deployed import smaller

PEER = "torch-pruning"
FULL, OURS = "full", "tombola"
KEPT, ALL = f"{PEER}, hidden size kept", f"{PEER}, its BERT example"
LENGTH = 128

ABSENT = f"{PEER} is not installed here, so nothing was compared (see benchmarks/peers.py)."
WORDS = """\
{peer} {version}. Every model is cut from the same weights ({model}, a head of two classes), by half: tombola removes
half of the heads (drawn, uneven over the layers) and half of the FFNs whole; {peer} half of every layer's heads and
half of every FFN's channels ("hidden size kept"), or, as in the BERT example of its repository, half of the hidden
size and so of the embeddings too, with half of every layer's heads and of every FFN's channels. FLOPs are what
torch's counter counts in a forward pass of 1 × {length}. Times are the library's `latency`, {repeats} turns; ratios of
medians to the full model with the 95 % bootstrap interval over the turns (fewer than six: the range). How good the
models are is not compared: that is a question of what is removed and of the training after it."""


def by_tombola(model: Any, inputs: Mapping[str, Any], folder: Path) -> tuple[Any, Any]:
    """Cut, save, load again: half of the heads, half of the FFNs. The table counts the lines of such bodies."""
    heads = anatomy_of(model).heads_per_layer
    mask = drawn(heads, heads=sum(heads) // 2, ffns=len(heads) // 2, seed=0)
    small = smaller(model, mask)
    small.save_pretrained(folder)
    return small, tombola.load(str(folder))


def by_peer(model: Any, inputs: Mapping[str, Any], folder: Path) -> tuple[Any, Any]:
    """The same with torch-pruning: half of the heads, half of every FFN, the hidden size kept."""
    tp: Any = import_module("torch_pruning")
    num_heads, ratios = {}, {}
    for layer in model.bert.encoder.layer:
        attention = layer.attention.self
        for linear in (attention.query, attention.key, attention.value):
            num_heads[linear] = attention.num_attention_heads
        ratios[attention] = ratios[layer.intermediate] = 0.5
    pruner = tp.pruner.MetaPruner(
        model,
        inputs,
        importance=tp.importance.MagnitudeImportance(p=2, group_reduction="mean"),
        pruning_ratio=0.0,
        pruning_ratio_dict=ratios,
        num_heads=num_heads,
        prune_head_dims=False,
        prune_num_heads=True,
        head_pruning_ratio=0.5,
        output_transform=lambda output: output.logits.sum(),
        ignored_layers=[model.classifier],
    )
    pruner.step()
    for layer in model.bert.encoder.layer:
        attention = layer.attention.self
        attention.num_attention_heads = pruner.num_heads[attention.query]
        attention.all_head_size = attention.query.out_features
    torch.save(model, folder / "model.pth")
    return model, torch.load(folder / "model.pth", weights_only=False)


def everything_halved(model: Any, inputs: Mapping[str, Any]) -> Any:
    """As in the example for BERT in its repository: the ratio holds for the hidden size as well."""
    tp: Any = import_module("torch_pruning")
    attentions = [layer.attention.self for layer in model.bert.encoder.layer]
    num_heads = {
        linear: attention.num_attention_heads
        for attention in attentions
        for linear in (attention.query, attention.key, attention.value)
    }
    pruner = tp.pruner.MetaPruner(
        model,
        inputs,
        importance=tp.importance.MagnitudeImportance(p=2, group_reduction="mean"),
        pruning_ratio=0.5,
        num_heads=num_heads,
        prune_head_dims=False,
        prune_num_heads=True,
        head_pruning_ratio=0.5,
        output_transform=lambda output: output.logits.sum(),
        ignored_layers=[model.classifier],
    )
    pruner.step()
    for attention in attentions:
        attention.num_attention_heads = pruner.num_heads[attention.query]
        attention.all_head_size = attention.query.out_features
    return model


def installed() -> bool:
    return find_spec("torch_pruning") is not None


def lines_of(function: Callable[..., object]) -> str:
    """Lines (as formatted) and statements of a function's body, without docstring and imports."""
    source = inspect.getsource(function)
    body: Any = ast.parse(source).body[0]
    kept = [node for node in body.body[1:] if "import_module(" not in ast.unparse(node)]
    lines = sum(node.end_lineno - node.lineno + 1 for node in kept)
    statements = sum(isinstance(inner, ast.stmt) for node in kept for inner in ast.walk(node))
    return f"{lines} ({statements})"


def section(
    settings: Sequence[Setting],
    say: Callable[[str], None],
    repeats: int = 20,
    batches: Sequence[int] = (1, 32),
    length: int = LENGTH,
) -> Section:
    """Latency in every setting's precision, and what was tried, in a table each."""
    title = f"Against {PEER}"
    if not installed():
        return Section(title, ABSENT)
    say(f"peer: {PEER}")
    with tempfile.TemporaryDirectory(prefix="tombola-bench-") as place:
        models, found = _made(settings[0], Path(place))
    rows, lines = [], []
    flops = {name: flops_of(model, length) for name, model in models.items()}
    for setting in settings:
        say(f"latency of what {PEER} makes, {setting.precision}")
        measured = latency(
            models,
            batches=batches,
            lengths=(length,),
            repeats=repeats,
            threads=setting.threads,
            device=setting.device,
            precision=setting.precision,
        )
        for name in models:
            lines.append(
                (setting.precision, name, *_sizes(models, flops, name), *_times(measured, name, length))
            )
            if name == FULL:
                continue
            ratio = measured.cell(batches[-1], length).ratio(name, FULL)
            what = f"{name}, {setting.precision}: share of the latency, {batches[-1]} × {length}"
            rows.append(Row(what, str(ratio), ratio.value))
    head = ("precision", "model", "FLOPs", "parameters", *(f"{batch} × {length}" for batch in batches))
    words = WORDS.format(
        peer=PEER, version=version(PEER), model=settings[0].model, length=length, repeats=repeats
    )
    tried = table(("what was tried in this run", OURS, PEER), [fact.cells() for fact in found])
    return Section(title, "\n\n".join([words, table(head, lines), tried]), rows)


def _made(setting: Setting, place: Path) -> tuple[dict[str, Any], list[Fact]]:
    """The models that are compared, and what else was tried with them."""
    full = fresh_model(setting).eval()
    ids = torch.randint(5, full.config.vocab_size, (2, 16))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    for name in (OURS, PEER):
        (place / name).mkdir()
    with quiet():
        ours, ours_again = by_tombola(full, inputs, place / OURS)
    peers, peers_again = by_peer(copy.deepcopy(full), inputs, place / PEER)
    halved = everything_halved(copy.deepcopy(full), inputs)
    found = [
        Fact("lines (statements) to cut, save and load", lines_of(by_tombola), lines_of(by_peer)),
        Fact("loaded again, each its own way: the same model", same(ours, ours_again, inputs),
             same(peers, peers_again, inputs)),
        *facts(full, ours, peers, halved, inputs, place),
    ]  # fmt: skip
    return {FULL: full, OURS: ours, KEPT: peers, ALL: halved}, found


def flops_of(model: Any, length: int) -> int:
    """Of one forward pass, as torch counts them."""
    from torch.utils.flop_counter import FlopCounterMode

    ids = torch.full((1, length), 7)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return counter.get_total_flops()


def _sizes(models: Mapping[str, Any], flops: Mapping[str, int], name: str) -> tuple[str, str]:
    counts = {each: model.num_parameters() for each, model in models.items()}
    if name == FULL:
        return f"{flops[FULL] / 1e9:.2f} G", f"{counts[FULL] / 1e6:.1f} M"
    return f"{flops[name] / flops[FULL]:.2f}", f"{counts[name] / counts[FULL]:.2f}"


def _times(measured: LatencyTable, name: str, length: int) -> list[str]:
    cells = [cell for cell in measured.cells if cell.length == length]
    if name == FULL:
        return [f"{1e3 * cell.timings[FULL].median:.1f} ms" for cell in cells]
    return [str(cell.ratio(name, FULL)) for cell in cells]
