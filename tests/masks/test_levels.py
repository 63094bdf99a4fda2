"""Levels of super tickets: the printed counts, and which parts winning, losing and random tickets keep."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tombola.errors import MaskMismatch, RecipeError
from tombola.masks.levels import LEVELS, chosen, drawn, ffns_removed_at, heads_removed_at
from tombola.masks.structure_mask import StructureMask

#: 6 layers of 12 heads, 3 of 5, and an uneven one: nothing here is 12 × 12 (SPEC 5, trap 14).
SHAPES = [(12,) * 6, (5,) * 3, (1, 7, 2, 4), (1,)]


def layers_of(mask: StructureMask) -> list[str]:
    """``"110+"``: a digit a head, then whether the FFN stays."""
    written = mask.to_json()["layers"]
    return [layer["heads"] + ("+" if layer["ffn"] else "-") for layer in written]


# --- how many --------------------------------------------------------------


def test_head_counts_are_those_of_the_paper() -> None:
    base, large = ([heads_removed_at(level, heads) for level in LEVELS] for heads in (144, 384))
    assert base == [14, 28, 43, 57, 72, 86, 100, 115]
    assert large == [38, 76, 115, 153, 192, 230, 268, 307]


def test_ffn_counts_are_those_of_the_text() -> None:
    base, large = ([ffns_removed_at(level, layers) for level in LEVELS] for layers in (12, 24))
    assert base == [1, 2, 3, 4, 6, 7, 8, 9]
    assert large == [2, 4, 7, 9, 12, 14, 16, 19]


def test_ffn_counts_are_those_of_the_authors_code() -> None:
    assert [ffns_removed_at(level, 12, "authors") for level in LEVELS] == [1, 2, 3, 4, 5, 6, 7, 8]
    fives = [0.05, 0.1, 0.15, 0.2, 0.3, 0.35, 0.4]
    assert [ffns_removed_at(level, 24, "authors") for level in fives] == [1, 2, 3, 4, 6, 7, 8]


def test_the_authors_large_tickets_lie_on_their_grid() -> None:
    """SPEC 3.5's large tickets (heads, FFNs), each at one level."""
    at = {0.05: (19, 1), 0.1: (38, 2), 0.2: (76, 4), 0.3: (115, 6), 0.35: (134, 7), 0.4: (153, 8)}
    for level, ticket in at.items():
        assert (heads_removed_at(level, 384), ffns_removed_at(level, 24, "authors")) == ticket


def test_a_level_is_the_decimal_that_is_written() -> None:
    """In binary 0.29 · 100 = 28.999999999999996, and 0.57 · 100 and 0.58 · 50 fall short too."""
    assert int(0.29 * 100) == 28
    for percent in range(1, 100):
        assert heads_removed_at(percent / 100, 100) == percent
        assert ffns_removed_at(percent / 100, 1000) == 10 * percent
    assert heads_removed_at(0.7, 10) == 7
    assert heads_removed_at(0.3, 10) == 3
    assert heads_removed_at(0.58, 50) == 29


@pytest.mark.parametrize("level", [0, 1, 0.0, 1.0, -0.1, 10, 70, float("nan"), float("inf"), True])
def test_a_level_of_nothing_or_everything_is_refused(level: float) -> None:
    for count in (lambda: heads_removed_at(level, 144), lambda: ffns_removed_at(level, 12)):
        with pytest.raises(RecipeError) as caught:
            count()
        assert caught.value.where == "level"


def test_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(RecipeError) as caught:
        ffns_removed_at(0.1, 12, "author")
    assert "did you mean 'authors'" in caught.value.todo


@pytest.mark.parametrize(
    ("level", "layers", "named"), [(0.1, 6, "ffn_rule"), (0.15, 12, "level"), (0.12, 24, "level")]
)
def test_the_authors_rule_is_not_made_up_where_it_is_unknown(level: float, layers: int, named: str) -> None:
    with pytest.raises(RecipeError, match=r"authors") as caught:
        ffns_removed_at(level, layers, "authors")
    assert caught.value.where == named


# --- which -----------------------------------------------------------------

HEAD_SCORES = [[0.1, 0.2, 0.3], [0.9, 0.8], [0.4, 0.7, 0.6]]
FFN_SCORES = [0.5, 0.1, 0.3]


def test_winning_by_hand() -> None:
    """Order of heads: .1 .2 (.3 is the last of its layer) .4 .6; of FFNs: layer 1, 2, 0."""
    ticket = chosen("winning", HEAD_SCORES, FFN_SCORES, heads=4, ffns=2)
    assert layers_of(ticket) == ["001+", "11-", "010-"]


def test_losing_by_hand() -> None:
    """Order of heads: .9 (.8 is the last) .7 .6 (.4 is the last) .3; of FFNs: layer 0, 2, 1."""
    ticket = chosen("losing", HEAD_SCORES, FFN_SCORES, heads=4, ffns=2)
    assert layers_of(ticket) == ["110-", "01+", "100-"]


def test_heads_and_ffns_are_ranked_apart() -> None:
    ticket = chosen("winning", [[100.0, 200.0]], [0.001], heads=1, ffns=0)
    assert layers_of(ticket) == ["01+"]


def test_every_ffn_may_go() -> None:
    ticket = chosen("winning", HEAD_SCORES, FFN_SCORES, heads=0, ffns=3)
    assert layers_of(ticket) == ["111-", "11-", "111-"]


def test_ties_go_by_position_and_losing_is_winning_backwards() -> None:
    equal = [[1.0, 1.0], [1.0, 1.0]]
    winning = chosen("winning", equal, [0.0, 0.0], heads=2, ffns=1)
    losing = chosen("losing", equal, [0.0, 0.0], heads=2, ffns=1)
    assert layers_of(winning) == ["01-", "01+"]
    assert layers_of(losing) == ["10+", "10-"]
    one_less = [layers_of(chosen(kind, equal, [0.0, 0.0], heads=1, ffns=0)) for kind in ("winning", "losing")]
    assert one_less == [["01+", "11+"], ["11+", "10+"]]


@pytest.mark.parametrize("kind", ["winning", "losing"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_no_number_is_refused_by_name(kind: str, bad: float) -> None:
    with pytest.raises(MaskMismatch) as caught:
        chosen(kind, [[1.0, 2.0], [3.0, bad]], [1.0, 2.0], heads=1, ffns=0)
    assert caught.value.where == "layer 1, head 1"
    with pytest.raises(MaskMismatch) as caught:
        chosen(kind, [[1.0, 2.0], [3.0, 4.0]], [bad, 2.0], heads=1, ffns=0)
    assert caught.value.where == "layer 0, FFN"


@pytest.mark.parametrize(("heads", "ffns", "named"), [(6, 0, "heads"), (0, 4, "ffns")])
def test_more_than_can_go_is_refused(heads: int, ffns: int, named: str) -> None:
    for ticket in (
        lambda: chosen("winning", HEAD_SCORES, FFN_SCORES, heads=heads, ffns=ffns),
        lambda: chosen("losing", HEAD_SCORES, FFN_SCORES, heads=heads, ffns=ffns),
        lambda: drawn([3, 2, 3], heads=heads, ffns=ffns, seed=0),
    ):
        with pytest.raises(RecipeError, match="cannot be removed") as caught:
            ticket()
        assert caught.value.where == named


@pytest.mark.parametrize(("heads", "ffns"), [(-1, 0), (0, -1), (1.0, 0), (0, True)])
def test_a_count_is_a_whole_number(heads: int, ffns: int) -> None:
    with pytest.raises(RecipeError, match="cannot be removed"):
        drawn([3, 2], heads=heads, ffns=ffns, seed=0)


def test_an_unknown_ticket_names_the_nearest() -> None:
    with pytest.raises(RecipeError) as caught:
        chosen("wining", HEAD_SCORES, FFN_SCORES, heads=1, ffns=1)
    assert "did you mean 'winning'" in caught.value.todo


def test_scores_must_be_of_the_same_layers() -> None:
    with pytest.raises(MaskMismatch, match="3 layers and of FFNs for 2"):
        chosen("winning", HEAD_SCORES, [0.1, 0.2], heads=1, ffns=1)
    with pytest.raises(MaskMismatch) as caught:
        chosen("winning", [[0.1], []], [0.1, 0.2], heads=0, ffns=0)
    assert caught.value.where == "layer 1"


# --- every kind, every size ------------------------------------------------

#: Few distinct values, so that ties are common.
SCORE = st.integers(0, 4).map(float)


@st.composite
def scored_models(draw: st.DrawFn) -> tuple[list[list[float]], list[float]]:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    heads = [draw(st.lists(SCORE, min_size=size, max_size=size)) for size in sizes]
    return heads, draw(st.lists(SCORE, min_size=len(sizes), max_size=len(sizes)))


@given(scored_models(), st.data(), st.integers(0, 9))
def test_counts_are_exact_and_every_layer_keeps_a_head(
    scores: tuple[list[list[float]], list[float]], data: st.DataObject, seed: int
) -> None:
    head_scores, ffn_scores = scores
    sizes = [len(row) for row in head_scores]
    heads = data.draw(st.integers(0, sum(sizes) - len(sizes)))
    ffns = data.draw(st.integers(0, len(sizes)))
    for ticket in (
        chosen("winning", head_scores, ffn_scores, heads=heads, ffns=ffns),
        chosen("losing", head_scores, ffn_scores, heads=heads, ffns=ffns),
        drawn(sizes, heads=heads, ffns=ffns, seed=seed),
    ):
        assert ticket.heads_per_layer == tuple(sizes)
        assert (ticket.heads_removed, ticket.ffns_removed) == (heads, ffns)
        assert ticket.layers_without_heads == ()


@given(scored_models(), st.integers(0, 9))
def test_tickets_of_rising_levels_are_nested(
    scores: tuple[list[list[float]], list[float]], seed: int
) -> None:
    head_scores, ffn_scores = scores
    sizes = [len(row) for row in head_scores]
    steps = [(k, min(k, len(sizes))) for k in range(sum(sizes) - len(sizes) + 1)]
    for tickets in (
        [chosen("winning", head_scores, ffn_scores, heads=h, ffns=f) for h, f in steps],
        [chosen("losing", head_scores, ffn_scores, heads=h, ffns=f) for h, f in steps],
        [drawn(sizes, heads=h, ffns=f, seed=seed) for h, f in steps],
    ):
        assert all(smaller <= larger for larger, smaller in pairwise(tickets))


@given(scored_models(), st.data())
def test_the_ffns_that_winning_keeps_losing_removes(
    scores: tuple[list[list[float]], list[float]], data: st.DataObject
) -> None:
    head_scores, ffn_scores = scores
    layers = len(ffn_scores)
    ffns = data.draw(st.integers(0, layers))
    winning = chosen("winning", head_scores, ffn_scores, heads=0, ffns=ffns)
    losing = chosen("losing", head_scores, ffn_scores, heads=0, ffns=layers - ffns)
    assert winning.ffns == (~losing).ffns
    assert all(
        low <= high
        for low, kept in zip(ffn_scores, winning.ffns, strict=True)
        for high, other in zip(ffn_scores, winning.ffns, strict=True)
        if other and not kept
    )


@given(st.data())
def test_the_heads_that_winning_keeps_losing_removes_where_no_layer_needs_protection(
    data: st.DataObject,
) -> None:
    """Every layer has some of the low scores and some of the high: all the low ones go, or all the high."""
    mixed = st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(lambda row: min(row) < 5 <= max(row))
    rows = data.draw(st.lists(mixed, min_size=1, max_size=5))
    low = sum(score < 5 for row in rows for score in row)
    high = sum(map(len, rows)) - low
    ffn_scores = [0.0] * len(rows)
    winning = chosen("winning", rows, ffn_scores, heads=low, ffns=0)
    losing = chosen("losing", rows, ffn_scores, heads=high, ffns=0)
    assert winning.heads == tuple(tuple(score >= 5 for score in row) for row in rows)
    assert losing.heads == (~winning).heads


@given(scored_models(), st.data())
def test_winning_is_the_best_that_keeps_a_head_in_every_layer(
    scores: tuple[list[list[float]], list[float]], data: st.DataObject
) -> None:
    """Independently: each layer's best head stays, then the highest of the rest, by score alone."""
    head_scores, ffn_scores = scores
    rest = [score for row in head_scores for score in sorted(row)[:-1]]
    heads = data.draw(st.integers(0, len(rest)))
    best_total = sum(map(max, head_scores)) + sum(sorted(rest)[heads:])
    ticket = chosen("winning", head_scores, ffn_scores, heads=heads, ffns=0)
    total = sum(head_scores[at][head] for at in range(ticket.layers) for head in ticket.kept_heads(at))
    assert total == best_total


# --- random ----------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_a_random_ticket_is_drawn_without_replacement(shape: tuple[int, ...]) -> None:
    """Drawing with replacement removes less than announced and flatters random (SPEC 5, trap 6)."""
    for seed in range(20):
        for heads in range(sum(shape) - len(shape) + 1):
            ticket = drawn(shape, heads=heads, ffns=len(shape) // 2, seed=seed)
            assert (ticket.heads_removed, ticket.ffns_removed) == (heads, len(shape) // 2)


def test_the_same_seed_draws_the_same_ticket_and_another_seed_another() -> None:
    tickets = [drawn([12] * 6, heads=20, ffns=2, seed=seed) for seed in range(5)]
    assert tickets[0] == drawn((12,) * 6, heads=20, ffns=2, seed=0)
    assert len(set(tickets)) == 5


def test_the_draw_is_pinned() -> None:
    """A stored study must find its random tickets again."""
    assert layers_of(drawn([5, 5, 5], heads=7, ffns=1, seed=0)) == ["10101+", "00101-", "11010+"]


def test_every_random_ticket_is_equally_likely() -> None:
    """Two of four heads of one layer, 6000 seeds: six tickets, 1000 each within 5 σ (σ = 29)."""
    seeds = range(6000)
    seen = Counter(drawn([4], heads=2, ffns=0, seed=seed).heads for seed in seeds)
    assert len(seen) == 6
    assert all(abs(count - 1000) < 145 for count in seen.values())
    ffns = Counter(drawn([1] * 4, heads=0, ffns=2, seed=seed).ffns for seed in seeds)
    assert len(ffns) == 6
    assert all(abs(count - 1000) < 145 for count in ffns.values())


def test_heads_and_ffns_are_drawn_independently() -> None:
    """Were one order used for both, the FFN of a layer would go with its heads."""
    seeds = range(2000)
    together = sum(
        drawn([2, 2], heads=1, ffns=1, seed=seed).ffns[0]
        == all(drawn([2, 2], heads=1, ffns=1, seed=seed).heads[0])
        for seed in seeds
    )
    assert abs(together - 1000) < 112
