"""WeightMask: immutable, validated, and its algebra against answers written out by hand."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tombola.errors import MaskMismatch, UsageError
from tombola.masks.weight_mask import WeightMask

T, F = True, False


def mask(**rows: list[bool]) -> WeightMask:
    return WeightMask({name: torch.tensor(row) for name, row in rows.items()})


def test_counts_and_sparsity() -> None:
    m = WeightMask({"b.weight": torch.tensor([[T, F], [F, F]]), "a.weight": torch.tensor([T, T, T, F])})
    assert m.names == ("a.weight", "b.weight")
    assert m.shapes == {"a.weight": (4,), "b.weight": (2, 2)}
    assert (m.size, m.kept, m.zeros, m.sparsity) == (8, 4, 4, 0.5)
    assert m.sparsity_of("b.weight") == 0.75
    assert m.density_per_tensor() == {"a.weight": 0.75, "b.weight": 0.25}
    assert list(m) == ["a.weight", "b.weight"]
    assert len(m) == 2
    assert "a.weight" in m
    assert "0.5000" in repr(m)


def test_nobody_can_change_a_mask() -> None:
    source = torch.tensor([T, F])
    m = WeightMask({"w": source})
    before = m.digest()
    source[1] = True
    m["w"][0] = False
    assert m["w"].tolist() == [True, False]
    assert WeightMask({"w": m["w"]}).digest() == before
    assert copy.deepcopy(m) == m


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({}, "mask"),
        ({"w": torch.tensor([1, 0])}, "w"),
        ({"w": torch.tensor([1.0, 0.0])}, "w"),
        ({"w": torch.zeros(0, dtype=torch.bool)}, "w"),
        ({"w": torch.tensor(True)}, "w"),
        ({"../w": torch.tensor([True])}, "../w"),
        ({"/w": torch.tensor([True])}, "/w"),
        ({"a..b": torch.tensor([True])}, "a..b"),
        ({"a.b.": torch.tensor([True])}, "a.b."),
        ({"a b": torch.tensor([True])}, "a b"),
        ({"w\n": torch.tensor([True])}, "w"),
        ({"": torch.tensor([True])}, "''"),
        ({"x" * 600: torch.tensor([True])}, "xxx"),
    ],
)
def test_bad_entries_are_refused_by_name(entries: dict[str, torch.Tensor], named: str) -> None:
    with pytest.raises(MaskMismatch) as caught:
        WeightMask(entries)
    assert named in caught.value.where


def test_algebra() -> None:
    a, b = mask(w=[T, T, F, F]), mask(w=[T, F, T, F])
    assert a & b == mask(w=[T, F, F, F])
    assert a | b == mask(w=[T, T, T, F])
    assert ~a == mask(w=[F, F, T, T])
    assert a != b
    assert hash(a) == hash(mask(w=[T, T, F, F]))
    assert len({a, b, mask(w=[T, T, F, F])}) == 2
    assert (a & b).is_subset_of(a)
    assert not a.is_subset_of(b)


def test_digest_depends_on_names_and_shapes() -> None:
    bits = torch.tensor([T, F, T, F])
    digests = {
        WeightMask({"v": bits}).digest(),
        WeightMask({"w": bits}).digest(),
        WeightMask({"w": bits.reshape(2, 2)}).digest(),
        WeightMask({"w": bits.reshape(4, 1)}).digest(),
        WeightMask({"w": torch.tensor([T, F, T, F, F])}).digest(),
    }
    assert len(digests) == 5


def test_masks_with_other_names_or_shapes_do_not_mix() -> None:
    with pytest.raises(MaskMismatch, match="lacks") as caught:
        _ = mask(a=[T], pooler=[T]) & mask(a=[T])
    assert caught.value.where == "pooler"
    with pytest.raises(MaskMismatch) as caught:
        _ = mask(a=[T, F]) | mask(a=[T])
    assert caught.value.where == "a"
    with pytest.raises(MaskMismatch):
        mask(a=[T]).is_subset_of(mask(b=[T]))


def test_overlap_written_out() -> None:
    """Figure 10: kept {0,1,2} and {1,2,3} share 2 of 4; pruned {3,4,5,6} and {0,4,5,6} share 3 of 5."""
    a, b = mask(w=[T, T, T, F, F, F, F]), mask(w=[F, T, T, T, F, F, F])
    assert a.overlap(b) == a.overlap(b, of="kept") == 2 / 4
    assert a.overlap(b, of="pruned") == 3 / 5
    assert a.overlap(a) == a.overlap(a, of="pruned") == 1.0
    assert a.overlap(~a) == 0.0
    assert mask(w=[T, T]).overlap(mask(w=[T, T]), of="pruned") == 1.0  # two empty sets are the same set
    with pytest.raises(UsageError):
        a.overlap(b, of="all")


def test_overlap_is_global_not_the_mean_of_tensors() -> None:
    a, b = mask(p=[T, T, T, T], q=[T]), mask(p=[T, T, T, T], q=[F])
    assert a.overlap(b) == 4 / 5


def test_overlap_of_the_shared_names_only() -> None:
    """SPEC 5, trap 13: a mask found without a pooler is compared on what both have."""
    with_pooler = mask(query=[T, T, F, F], pooler=[T, T])
    without = mask(query=[T, F, F, F])
    assert with_pooler.shared_names(without) == ("query",)
    assert with_pooler.overlap(without) == without.overlap(with_pooler) == 1 / 2
    assert with_pooler.overlap(without, of="pruned") == 2 / 3
    assert with_pooler.restrict(["query"]) == mask(query=[T, T, F, F])
    with pytest.raises(MaskMismatch):
        without.restrict(["pooler"])
    with pytest.raises(MaskMismatch, match="no tensor in common"):
        with_pooler.overlap(mask(other=[T]))
    with pytest.raises(MaskMismatch) as caught:
        with_pooler.overlap(mask(query=[T]))
    assert caught.value.where == "query"


def test_of_weights_counts_what_the_model_holds() -> None:
    """SPEC 5, trap 10: sparsity comes from the weights; −0.0 is zero, a tiny weight is not."""
    state = {"w": torch.tensor([[0.0, -0.0], [1e-38, -2.0]]), "bias": torch.zeros(2)}
    m = WeightMask.of_weights(state, ["w"])
    assert m["w"].tolist() == [[F, F], [T, T]]
    assert m.names == ("w",)
    with pytest.raises(MaskMismatch) as caught:
        WeightMask.of_weights(state, ["v"])
    assert caught.value.where == "v"


def test_dense_and_check_against() -> None:
    m = WeightMask.dense({"w": (2, 3)})
    assert m.sparsity == 0.0
    m.check_against({"w": (2, 3), "pooler": (2, 2)})
    with pytest.raises(MaskMismatch) as caught:
        m.check_against({"w": (3, 2)})
    assert caught.value.where == "w"
    with pytest.raises(MaskMismatch) as caught:
        m.check_against({"v": (2, 3)})
    assert caught.value.where == "w"


def test_random_is_exact_and_without_replacement() -> None:
    """SPEC 5, trap 6: drawing 500 of 1000 *with* replacement drops about 393 different ones, never 500."""
    m = WeightMask({"a": torch.arange(600) < 250, "b": torch.arange(400).reshape(20, 20) < 250})
    for seed in range(20):
        drawn = m.random_like(torch.Generator().manual_seed(seed))
        assert drawn.zeros == m.zeros == 500
        assert drawn.shapes == m.shapes
        layered = m.random_like(torch.Generator().manual_seed(seed), scope="layer")
        assert layered.density_per_tensor() == m.density_per_tensor()


def test_random_is_deterministic_by_generator() -> None:
    m = WeightMask({"a": torch.arange(600) < 250})
    draw = [m.random_like(torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert draw[0] == draw[1]
    assert draw[0] != draw[2]
    one = torch.Generator().manual_seed(1)
    assert m.random_like(one) != m.random_like(one)  # the stream goes on
    with pytest.raises(UsageError):
        m.random_like(one, scope="row")


def test_random_is_uniform() -> None:
    """Every position is dropped equally often: 4000 draws of 1 of 4, 1000 ± 5σ each."""
    m = WeightMask({"a": torch.tensor([T, F]), "b": torch.tensor([T, T])})
    generator = torch.Generator().manual_seed(0)
    dropped = torch.zeros(4)
    for _ in range(4000):
        drawn = m.random_like(generator)
        dropped += ~torch.cat([drawn["a"], drawn["b"]])
    assert dropped.sum() == 4000
    assert bool(((dropped - 1000).abs() < 5 * (4000 * 0.25 * 0.75) ** 0.5).all())


bits = st.lists(st.booleans(), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(bits, st.data())
def test_laws(first: list[bool], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first)))
    a, b = mask(w=first), mask(w=second)
    assert ~(a & b) == ~a | ~b
    assert ~~a == a
    assert a.overlap(b) == b.overlap(a)
    assert a.overlap(b, of="pruned") == (~a).overlap(~b)
    assert a.is_subset_of(b) == (a & b == a)
    assert (a == b) == (a.digest() == b.digest())
    assert a.kept + a.zeros == a.size


def test_emptied_names_the_tensors_that_keep_next_to_nothing():
    mask = WeightMask({"a": torch.tensor([True, False]), "b": torch.tensor([False, False])})
    assert mask.emptied == ("b",)
    one_of_a_thousand = torch.zeros(1000, dtype=torch.bool)
    one_of_a_thousand[3] = True
    assert WeightMask({"a": one_of_a_thousand}).emptied == ("a",)
