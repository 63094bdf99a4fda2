"""StructureMask: immutable, validated, its algebra by hand, and its JSON read as a stranger's."""

import copy
import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola.errors import CorruptArtifact, MaskMismatch, UsageError
from tombola.masks.structure_mask import StructureMask

T, F = True, False


def mask(*layers: str) -> StructureMask:
    """``mask("110+", "000-")``: a digit a head, then whether the FFN stays."""
    return StructureMask(
        tuple(tuple(digit == "1" for digit in layer[:-1]) for layer in layers),
        tuple(layer[-1] == "+" for layer in layers),
    )


@st.composite
def masks_of_one_model(draw: st.DrawFn, count: int) -> list[StructureMask]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    return [
        StructureMask(
            tuple(tuple(draw(st.lists(st.booleans(), min_size=n, max_size=n))) for n in sizes),
            tuple(draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))),
        )
        for _ in range(count)
    ]


def test_counts_of_an_uneven_model() -> None:
    m = mask("1101+", "00-", "101+")
    assert (m.layers, m.heads_per_layer) == (3, (4, 2, 3))
    assert (m.head_count, m.heads_kept, m.heads_removed) == (9, 5, 4)
    assert (m.ffn_count, m.ffns_kept, m.ffns_removed) == (3, 2, 1)
    assert [m.kept_heads(layer) for layer in range(3)] == [(0, 1, 3), (), (0, 2)]
    assert m.share_of_heads_removed == 4 / 9
    assert m.share_of_ffns_removed == 1 / 3
    assert m.layers_without_heads == m.layers_without_ffn == (1,)
    assert str(m) == "3 layers · heads 5/9 · FFN 2/3"


def test_the_full_mask_keeps_everything() -> None:
    m = StructureMask.full([2, 1])
    assert m == mask("11+", "1+")
    assert m.keeps_everything
    assert not m.removes_everything
    assert (~m).removes_everything


def test_a_mask_that_lacks_only_ffns_or_only_heads_removes_not_everything() -> None:
    for m in (mask("00+", "00-"), mask("00-", "01-")):
        assert not m.removes_everything
        assert not m.keeps_everything
        m.check_leaves_something()
    with pytest.raises(MaskMismatch, match="all 3 heads and all 2 FFNs") as caught:
        mask("00-", "0-").check_leaves_something("ticket.json")
    assert caught.value.where == "ticket.json"


def test_nobody_can_change_a_mask() -> None:
    row = [T, F]
    m = StructureMask([row], [T])  # type: ignore[arg-type]
    before = m.digest()
    row[1] = True
    assert (m.heads, m.ffns, m.digest()) == (((T, F),), (T,), before)
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.ffns = (F,)  # type: ignore[misc]
    assert copy.deepcopy(m) == m
    assert len({m, copy.deepcopy(m)}) == 1


@pytest.mark.parametrize(
    ("heads", "ffns", "named"),
    [
        ((), (), "ffns"),
        (((T,),), (T, F), "ffns"),
        (((T,), (T,)), (T,), "ffns"),
        (((T,), ()), (T, T), "heads of layer 1"),
        (((T, 1),), (T,), "heads of layer 0, position 1"),
        (((T,),), (0.0,), "ffns, position 0"),
        ("11", (T,), "heads"),
        (("11",), (T,), "heads of layer 0"),
        (((T,),), "1", "ffns"),
        (((T,),), None, "ffns"),
    ],
)
def test_what_is_no_mask_is_refused_by_name(heads: object, ffns: object, named: str) -> None:
    with pytest.raises(MaskMismatch) as caught:
        StructureMask(heads, ffns)  # type: ignore[arg-type]
    assert caught.value.where == named


@pytest.mark.parametrize("heads", [[3, 0], [3, -1], [3, 2.0], [3, True]])
def test_a_full_model_has_heads_in_every_layer(heads: list) -> None:
    with pytest.raises(MaskMismatch) as caught:
        StructureMask.full(heads)
    assert caught.value.where == "layer 1"


def test_a_model_without_layers_is_refused() -> None:
    with pytest.raises(MaskMismatch):
        StructureMask.full([])


@pytest.mark.parametrize("layer", [-1, 2])
def test_a_layer_that_is_not_there_has_no_kept_heads(layer: int) -> None:
    with pytest.raises(MaskMismatch, match=f"no layer {layer}"):
        mask("10+", "11+").kept_heads(layer)


# --- algebra ---------------------------------------------------------------


def test_algebra_by_hand() -> None:
    a, b = mask("1100+", "10-"), mask("1010+", "11+")
    assert a & b == mask("1000+", "10-")
    assert a | b == mask("1110+", "11+")
    assert ~a == mask("0011-", "01+")
    assert not a <= b
    assert a & b <= a <= a | b
    assert a | b >= b


def test_overlap_counts_heads_and_ffns_of_the_kept_or_of_the_removed_set() -> None:
    a, b = mask("1100+", "10-"), mask("1010+", "11+")
    assert a.overlap(b) == a.overlap(b, of="kept") == 3 / 7
    assert a.overlap(b, of="removed") == 1 / 5
    full = StructureMask.full([4, 2])
    assert full.overlap(full, of="removed") == 1.0
    assert (~full).overlap(~full, of="kept") == 1.0
    assert full.overlap(~full) == 0.0


def test_overlap_of_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match="pruned"):
        mask("1+").overlap(mask("1+"), of="pruned")


@pytest.mark.parametrize("operation", ["__and__", "__or__", "__le__", "overlap"])
@pytest.mark.parametrize("other", [mask("11+"), mask("11+", "110+"), mask("110+", "11+")])
def test_masks_of_different_models_do_not_go_together(operation: str, other: StructureMask) -> None:
    with pytest.raises(MaskMismatch, match="2, 2 a layer does not go together"):
        getattr(mask("11+", "11+"), operation)(other)


def test_a_mask_and_something_else_do_not_go_together() -> None:
    for operation in ("__and__", "__or__", "__le__"):
        assert getattr(mask("11+"), operation)("11+") is NotImplemented


@given(masks_of_one_model(2))
def test_the_algebra_is_that_of_sets(pair: list[StructureMask]) -> None:
    def kept(m: StructureMask) -> set[tuple[int, int]]:
        heads = {(layer, head) for layer in range(m.layers) for head in m.kept_heads(layer)}
        return heads | {(layer, -1) for layer in range(m.layers) if m.ffns[layer]}

    a, b = pair
    everything = kept(StructureMask.full(a.heads_per_layer))
    assert kept(a & b) == kept(a) & kept(b)
    assert kept(a | b) == kept(a) | kept(b)
    assert kept(~a) == everything - kept(a)
    assert (a <= b) == (kept(a) <= kept(b))
    assert a.heads_kept + a.ffns_kept == len(kept(a))
    assert a.overlap(b, of="removed") == (~a).overlap(~b, of="kept") == b.overlap(a, of="removed")


# --- against a model -------------------------------------------------------


def test_a_mask_fits_the_model_it_is_about() -> None:
    mask("1101+", "00-").check_against([4, 2])


@pytest.mark.parametrize(
    ("model", "said", "where"),
    [
        ([4], "2 layers, the model has 1", "here"),
        ([4, 2, 2], "2 layers, the model has 3", "here"),
        ([4, 3], "2 heads in a layer that has 3", "here: layer 1"),
    ],
)
def test_a_mask_of_another_model_is_refused(model: list[int], said: str, where: str) -> None:
    with pytest.raises(MaskMismatch, match=said) as caught:
        mask("1101+", "00-").check_against(model, "here")
    assert caught.value.where == where


def test_without_a_place_the_refusal_still_names_the_layer() -> None:
    with pytest.raises(MaskMismatch) as caught:
        mask("1101+", "00-").check_against([4, 3])
    assert caught.value.where == "layer 1"


# --- JSON ------------------------------------------------------------------


def test_json_is_readable() -> None:
    assert mask("1101+", "00-").to_json() == {
        "format": 1,
        "kind": "structure",
        "layers": [{"heads": "1101", "ffn": True}, {"heads": "00", "ffn": False}],
    }


def test_the_digest_is_pinned() -> None:
    """Identities are hashed from it: it must never move."""
    assert mask("1101+", "00-").digest() == "493c5c658177049dca074f0b98dc9a9333df39fbd380675982acb27f9c19efe9"


@given(masks_of_one_model(2))
def test_json_goes_both_ways_and_digests_tell_masks_apart(pair: list[StructureMask]) -> None:
    a, b = pair
    assert StructureMask.from_json(json.loads(json.dumps(a.to_json()))) == a
    assert (a == b) == (a.digest() == b.digest())


def changed(**entries: object) -> dict:
    return mask("1101+", "00-").to_json() | entries


def with_layer(**entries: object) -> dict:
    return changed(layers=[{"heads": "1101", "ffn": True}, {"heads": "00", "ffn": False} | entries])


@pytest.mark.parametrize(
    ("value", "said", "where"),
    [
        (None, "not NoneType", "m.json"),
        ([1], "not list", "m.json"),
        ({}, "format None", "m.json"),
        (changed(format=True), "format True", "m.json"),
        (changed(format="1"), "format '1'", "m.json"),
        (changed(kind="weights"), "kind is 'weights'", "m.json"),
        (changed(more=1), "'more' means nothing", "m.json"),
        ({"format": 1, "kind": "structure"}, "'layers' is missing", "m.json"),
        (changed(layers=[]), "not a list", "m.json"),
        (changed(layers={"0": {}}), "not a list", "m.json"),
        (changed(layers=[{}] * 5000), "not a list", "m.json"),
        (changed(layers=["11+"]), "not str", "m.json: layer 0"),
        (with_layer(heads=""), "heads are ''", "m.json: layer 1"),
        (with_layer(heads="012"), "heads are '012'", "m.json: layer 1"),
        (with_layer(heads="01\n"), "heads are", "m.json: layer 1"),
        (with_layer(heads="0１"), "heads are", "m.json: layer 1"),
        (with_layer(heads="1" * 5000), "heads are", "m.json: layer 1"),
        (with_layer(heads=11), "heads are 11", "m.json: layer 1"),
        (with_layer(heads=[True]), "heads are", "m.json: layer 1"),
        (with_layer(ffn=1), "FFN is 1", "m.json: layer 1"),
        (with_layer(ffn="true"), "FFN is 'true'", "m.json: layer 1"),
        (with_layer(skip=True), "'skip' means nothing", "m.json: layer 1"),
        (changed(layers=[{"heads": "1"}]), "'ffn' is missing", "m.json: layer 0"),
    ],
)
def test_a_damaged_or_foreign_mask_is_refused_and_says_where(value: object, said: str, where: str) -> None:
    with pytest.raises(CorruptArtifact, match=said) as caught:
        StructureMask.from_json(value, "m.json")
    assert caught.value.where == where
    assert len(caught.value.what) < 200


def test_a_mask_of_a_newer_tombola_says_upgrade() -> None:
    with pytest.raises(CorruptArtifact, match="format 2") as caught:
        StructureMask.from_json(changed(format=2))
    assert "upgrade" in caught.value.todo
    assert caught.value.where == "structure mask"


def test_structure_masks_levels_and_sizes_need_no_torch() -> None:
    code = (
        "import sys, tombola.masks.levels, tombola.masks.structure_sizes\n"
        "heavy = {'torch', 'numpy', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
