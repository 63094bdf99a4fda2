"""Remaining weights: those printed in SPEC 3.3 and 3.7, and a model small enough to count by hand."""

import pytest

from tombola.errors import MaskMismatch, UsageError
from tombola.masks.levels import drawn
from tombola.masks.structure_mask import StructureMask
from tombola.masks.structure_sizes import StructureSizes

#: A layer of BERT: Q, K, V, O and two FFN matrices, with their biases and two LayerNorms.
BASE_LAYER = 4 * (768 * 768 + 768) + (2 * 768 * 3072 + 3072 + 768) + 4 * 768
LARGE_LAYER = 4 * (1024 * 1024 + 1024) + (2 * 1024 * 4096 + 4096 + 1024) + 4 * 1024
BASE = StructureSizes(768, 64, 3072, (12,) * 12, 109_482_240, 12 * BASE_LAYER)
LARGE = StructureSizes(1024, 64, 4096, (16,) * 24, 335_141_888, 24 * LARGE_LAYER)
TINY = StructureSizes(hidden=4, head_size=2, inner=6, heads=(2, 3), parameters=500, encoder=300)


def without(sizes: StructureSizes, heads: int, ffns: int) -> StructureMask:
    return drawn(sizes.heads, heads=heads, ffns=ffns, seed=0)


@pytest.mark.parametrize(
    ("sizes", "heads", "ffns", "printed"),
    [(BASE, 0, 0, 1.0), (BASE, 14, 1, 0.932), (LARGE, 38, 2, 0.920), (LARGE, 76, 4, 0.840)],
)
def test_the_remaining_weights_of_the_paper(
    sizes: StructureSizes, heads: int, ffns: int, printed: float
) -> None:
    assert round(sizes.remaining_weight(without(sizes, heads, ffns)), 3) == printed


#: Task -> (heads, FFNs) of the authors' ticket (SPEC 3.5), what is printed in Table 7, what the ticket gives.
#: Table 7 prints means over seeds, the tickets are of one seed. Where its deviation is 0 every seed chose one
#: level, and the figure is that level's. The two sources contradict each other at MNLI base (no part removed,
#: yet .93 ± 0) and CoLA large (40 %, yet .84 ± 0, the 20 % ticket's); the others only differ as a mean may.
TABLE_7_BASE = {
    "qnli": ((14, 1), 0.93, 0.93),
    "qqp": ((14, 1), 0.93, 0.93),
    "stsb": ((14, 1), 0.93, 0.93),
    "sst": ((28, 2), 0.86, 0.86),
    "rte": ((14, 1), 0.83, 0.93),
    "mrpc": ((43, 3), 0.86, 0.79),
    "cola": ((0, 0), 0.89, 1.0),
    "mnli": ((0, 0), 0.93, 1.0),
}
TABLE_7_LARGE = {
    "mnli": ((38, 2), 0.92, 0.92),
    "qqp": ((76, 4), 0.84, 0.84),
    "rte": ((76, 4), 0.82, 0.84),
    "stsb": ((76, 4), 0.79, 0.84),
    "qnli": ((19, 1), 0.90, 0.96),
    "mrpc": ((115, 6), 0.66, 0.76),
    "sst": ((134, 7), 0.77, 0.72),
    "cola": ((153, 8), 0.84, 0.68),
}
FOLLOW = {"base": {"qnli", "qqp", "stsb", "sst"}, "large": {"mnli", "qqp"}}


@pytest.mark.parametrize(
    ("model", "sizes", "table"), [("base", BASE, TABLE_7_BASE), ("large", LARGE, TABLE_7_LARGE)]
)
def test_table_7_follows_from_the_authors_tickets_where_every_seed_chose_the_same(
    model: str, sizes: StructureSizes, table: dict
) -> None:
    following = set()
    for task, ((heads, ffns), printed, expected) in table.items():
        remaining = round(sizes.remaining_weight(without(sizes, heads, ffns)), 2)
        assert remaining == expected, task
        if remaining == printed:
            following.add(task)
    assert following == FOLLOW[model]


def test_by_hand_on_an_uneven_model() -> None:
    """A head is 4·4·2 = 32 weights, an FFN 2·4·6 = 48."""
    assert (TINY.head_weights, TINY.ffn_weights) == (32, 48)
    mask = StructureMask(((True, False), (False, True, False)), (True, False))
    assert TINY.removed_weights(mask) == 3 * 32 + 48 == 144
    assert TINY.remaining_weight(mask) == 1 - 144 / 500
    assert TINY.remaining_of_encoder(mask) == 1 - 144 / 300


def test_a_gated_ffn_has_three_matrices() -> None:
    gated = StructureSizes(4, 2, 6, (2, 3), 500, 320, ffn_matrices=3)
    mask = StructureMask(((True, True), (True, True, True)), (True, False))
    assert gated.remaining_weight(mask) == 1 - 72 / 500


def test_the_share_of_the_encoder_is_another_figure() -> None:
    mask = without(BASE, 14, 1)
    assert round(BASE.remaining_of_encoder(mask), 3) == 0.912
    assert BASE.remaining_of_encoder(mask) < BASE.remaining_weight(mask)


def test_a_mask_of_another_model_has_no_remaining_weight_here() -> None:
    for measure in (LARGE.remaining_weight, LARGE.remaining_of_encoder):
        with pytest.raises(MaskMismatch, match="12 layers, the model has 24"):
            measure(StructureMask.full([12] * 12))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden": 0}, "hidden"),
        ({"head_size": -2}, "head_size"),
        ({"inner": 6.0}, "inner"),
        ({"ffn_matrices": True}, "ffn_matrices"),
        ({"heads": (2, 0)}, "heads of layer 1"),
        ({"heads": ()}, "sizes"),
        ({"encoder": 255}, "sizes"),
        ({"parameters": 299}, "sizes"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change: dict, named: str) -> None:
    plain = {"hidden": 4, "head_size": 2, "inner": 6, "heads": (2, 3), "parameters": 500, "encoder": 300}
    with pytest.raises(UsageError) as caught:
        StructureSizes(**(plain | change))
    assert caught.value.where == named
