"""What can be done with the models that tombola and torch-pruning produce: the answers are tried, not written down."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import STRUCTURE, anatomy_of, backbone_of
from tombola.models.deployed import smaller
from tombola.models.gating import gated

YES, NO = "yes", "no"


@dataclass(frozen=True)
class Fact:
    """One question with both answers."""

    what: str
    ours: str
    peers: str

    def cells(self) -> tuple[str, str, str]:
        return self.what, self.ours, self.peers


def facts(
    full: Any, ours: Any, peers: Any, halved: Any, inputs: Mapping[str, Any], place: Path
) -> list[Fact]:
    """``ours``, ``peers`` and ``halved`` are cut from ``full``; ``place`` is a folder to write to."""
    auto = import_module("transformers").AutoModelForSequenceClassification
    folders = {"ours": place / "ours-plain", "peers": place / "peers-plain"}
    with quiet():
        ours.save_pretrained(folders["ours"])
        peers.save_pretrained(folders["peers"])
        plain = [_loaded(auto, folder, model, inputs) for folder, model in _pairs(folders, ours, peers)]
        forced = [
            _loaded(auto, folder, model, inputs, ignore_mismatched_sizes=True)
            for folder, model in _pairs(folders, ours, peers)
        ]
    structure: Any = getattr(backbone_of(ours), STRUCTURE)
    everything = StructureMask.full(anatomy_of(full).heads_per_layer)
    uneven = replace(everything, heads=structure.heads)
    no_ffn = replace(everything, ffns=(False, *everything.ffns[1:]))
    no_heads = replace(everything, heads=((False,) * len(everything.heads[0]), *everything.heads[1:]))
    return [
        Fact("… without a pickle that may run code", YES, _without_pickle(peers, place)),
        Fact("`save_pretrained`, then `AutoModel….from_pretrained` (with `import tombola.auto`)", *plain),
        Fact("… and `ignore_mismatched_sizes=True`", *forced),
        Fact("reloads in plain transformers", "no: it is refused", _plain(halved, inputs, place)),
        Fact("its `config` says what it is", _counted(ours), _counted(peers)),
        Fact("trains on: a step of AdamW, every weight has a gradient", _trains(ours, inputs), _trains(peers, inputs)),
        Fact("another number of heads in every layer, chosen one by one", _agrees(full, uneven, inputs, _ours),
             _agrees(full, uneven, inputs, _peers_heads)),
        Fact("a layer without any head (its bias stays)", _agrees(full, no_heads, inputs, _ours),
             _agrees(full, no_heads, inputs, _peers_heads)),
        Fact("a layer without FFN", _agrees(full, no_ffn, inputs, _ours),
             _agrees(full, no_ffn, inputs, _peers_ffn)),
        Fact("heads alone, by a share (`head_pruning_ratio=0.5, pruning_ratio=0`)", YES, _heads_alone(full, inputs)),
        Fact("single channels of an FFN, dimensions of the hidden size", "no: whole FFNs", _channels(full, peers)),
    ]  # fmt: skip


def same(one: Any, other: Any, inputs: Mapping[str, Any]) -> str:
    """Whether two models give the same bits."""
    with torch.no_grad():
        left, right = one.eval()(**inputs).logits, other.eval()(**inputs).logits
    return YES if torch.equal(left, right) else NO


@contextmanager
def quiet():
    """What libraries print about sizes that do not match is no part of the benchmark's output."""
    logger = logging.getLogger("transformers")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _pairs(folders: Mapping[str, Path], ours: Any, peers: Any) -> list[tuple[Path, Any]]:
    import_module("tombola.auto")
    return [(folders["ours"], ours), (folders["peers"], peers)]


def _loaded(auto: Any, folder: Path, model: Any, inputs: Mapping[str, Any], **options: Any) -> str:
    try:
        again = auto.from_pretrained(folder, **options)
    except Exception as error:  # whatever it is, the answer is that it does not load
        return f"no: {type(error).__name__}"
    if same(model, again, inputs) == YES:
        return YES
    return "loads another model: what does not fit is drawn anew"


def _plain(halved: Any, inputs: Mapping[str, Any], place: Path) -> str:
    """Where every layer lost the same, a configuration that says so by hand makes a plain model of it."""
    mended = copy.deepcopy(halved)
    layer = mended.bert.encoder.layer[0]
    mended.config.hidden_size = mended.bert.embeddings.word_embeddings.embedding_dim
    mended.config.num_attention_heads = layer.attention.self.num_attention_heads
    mended.config.intermediate_size = layer.intermediate.dense.out_features
    with quiet():
        mended.save_pretrained(place / "mended")
        found = _loaded(type(mended), place / "mended", mended, inputs)
    if found == YES:
        return "yes, if all layers lost the same and the sizes in `config` are mended by hand"
    return found


def _channels(full: Any, peers: Any) -> str:
    widths = [model.bert.encoder.layer[0].intermediate.dense.out_features for model in (full, peers)]
    return YES if 0 < widths[1] < widths[0] else NO


def _without_pickle(model: Any, place: Path) -> str:
    torch.save(model, place / "model.pth")
    try:
        torch.load(place / "model.pth")
    except Exception as error:
        return f"no: {type(error).__name__}"
    return YES


def _counted(model: Any) -> str:
    """Whether a model built from the configuration has the weights that this one has."""
    built = type(model)(copy.deepcopy(model.config))
    return YES if built.num_parameters() == model.num_parameters() else NO


def _trains(model: Any, inputs: Mapping[str, Any]) -> str:
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4)
    loss = trained(**inputs, labels=torch.zeros(len(inputs["input_ids"]), dtype=torch.long)).loss
    loss.backward()
    optimizer.step()
    missing = [name for name, weight in trained.named_parameters() if weight.grad is None]
    return YES if loss.isfinite() and not missing else NO


def _agrees(
    full: Any, mask: StructureMask, inputs: Mapping[str, Any], cut: Callable[[Any, StructureMask, Any], Any]
) -> str:
    """Whether the cut model computes what the full one does with closed gates (SPEC 3.2)."""
    with torch.no_grad(), gated(full, mask):
        wanted = full(**inputs).logits
    refused, model = cut(full, mask, inputs)
    with torch.no_grad():
        given = model.eval()(**inputs).logits
    agrees = torch.allclose(wanted, given, atol=1e-5)
    if refused:
        return "its check says no; forced, " + ("it is" if agrees else "the removed part's bias stays")
    return YES if agrees else "another function"


def _ours(full: Any, mask: StructureMask, inputs: Any) -> tuple[bool, Any]:
    return False, smaller(full, mask)


def _peers_heads(full: Any, mask: StructureMask, inputs: Any) -> tuple[bool, Any]:
    """By the groups of its dependency graph: rows of the query, with all that hangs on them."""
    tp: Any = import_module("torch_pruning")
    model = copy.deepcopy(full)
    graph = _graph(tp, model, inputs)
    refused = False
    for index, layer in enumerate(model.bert.encoder.layer):
        attention = layer.attention.self
        size = attention.attention_head_size
        gone = sorted(set(range(mask.heads_per_layer[index])) - set(mask.kept_heads(index)))
        if gone:
            rows = [head * size + row for head in gone for row in range(size)]
            group = graph.get_pruning_group(attention.query, tp.prune_linear_out_channels, idxs=rows)
            refused |= not graph.check_pruning_group(group)
            group.prune()
    return refused, model


def _heads_alone(full: Any, inputs: Mapping[str, Any]) -> str:
    """Its pruner looks at heads only where it also has channels to remove."""
    tp: Any = import_module("torch_pruning")
    model = copy.deepcopy(full)
    attentions = [layer.attention.self for layer in model.bert.encoder.layer]
    tp.pruner.MetaPruner(
        model,
        inputs,
        importance=tp.importance.MagnitudeImportance(p=2, group_reduction="mean"),
        pruning_ratio=0.0,
        num_heads={one: each.num_attention_heads for each in attentions for one in (each.query, each.key, each.value)},
        prune_head_dims=False,
        prune_num_heads=True,
        head_pruning_ratio=0.5,
        output_transform=lambda output: output.logits.sum(),
        ignored_layers=[model.classifier],
    ).step()  # fmt: skip
    if model.num_parameters() < full.num_parameters():
        return YES
    return "no: removes nothing and says nothing; name the attentions in `pruning_ratio_dict`"


def _peers_ffn(full: Any, mask: StructureMask, inputs: Any) -> tuple[bool, Any]:
    tp: Any = import_module("torch_pruning")
    model = copy.deepcopy(full)
    graph = _graph(tp, model, inputs)
    refused = False
    for kept, layer in zip(mask.ffns, model.bert.encoder.layer, strict=True):
        if not kept:
            channels = list(range(layer.intermediate.dense.out_features))
            dense = layer.intermediate.dense
            group = graph.get_pruning_group(dense, tp.prune_linear_out_channels, idxs=channels)
            refused |= not graph.check_pruning_group(group)
            group.prune()
    return refused, model


def _graph(tp: Any, model: Any, inputs: Any) -> Any:
    return tp.DependencyGraph().build_dependency(
        model, inputs, output_transform=lambda output: output.logits.sum()
    )
