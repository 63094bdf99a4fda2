"""Structured tickets: what they are, what cannot be one, and what people read about them."""

import dataclasses

import pytest
import torch
from tests.tickets import TINY_SIZES, structured_ticket, tiny_latency, tiny_mask, tiny_structure, tiny_ticket

from tombola.errors import MaskMismatch, TombolaError, UsageError
from tombola.masks.structure_mask import StructureMask
from tombola.training.callback import TicketCallback

#: Pinned: a change means that every structured ticket out there gets another name.
IDENTITY = "c815d6e08b801b7f2d03dd219135a02e578db3536723d7182227558d5a4f63eb"


def with_sizes(**changes: object) -> dict[str, object]:
    return {**structured_ticket().model, "sizes": {**TINY_SIZES, **changes}}


def test_identity_is_pinned() -> None:
    assert structured_ticket().identity == IDENTITY


def test_identity_covers_the_mask_and_the_sizes_but_not_about() -> None:
    ticket = structured_ticket()
    assert structured_ticket(about={"latency": {"rows": []}}) == ticket
    others = [
        structured_ticket(mask=StructureMask.full((4, 4, 4))),
        structured_ticket(mask=dataclasses.replace(tiny_structure(), ffns=(False, True, True))),
        structured_ticket(model=with_sizes(parameters=2001)),
        structured_ticket(results={}),
        tiny_ticket(),
    ]
    assert len({other.identity for other in [ticket, *others]}) == 1 + len(others)


def test_remaining_weight_follows_from_the_sizes() -> None:
    ticket = structured_ticket()
    assert ticket.remaining_weight == 1 - 512 / 2000
    assert ticket.remaining_of_encoder == 1 - 512 / 1600
    assert ticket.amount == {
        "kind": "structure",
        "digest": tiny_structure().digest(),
        "layers": 3,
        "heads": {"kept": 8, "removed": 4},
        "ffns": {"kept": 2, "removed": 1},
        "remaining_weight": 0.744,
        "remaining_of_encoder": 1 - 512 / 1600,
    }


def test_neither_kind_is_taken_for_the_other() -> None:
    structured, weights = structured_ticket(), tiny_ticket()
    assert (structured.is_structured, weights.is_structured) == (True, False)
    assert structured.structure == tiny_structure()
    assert weights.weight_mask == tiny_mask()
    for ask in (
        lambda: structured.weight_mask,
        lambda: structured.sparsity,
        lambda: structured.sparsity_without_optional,
        lambda: structured.check_against({"w": (2, 2)}),
    ):
        with pytest.raises(MaskMismatch, match="no sparsity") as caught:
            ask()
        assert "remaining_weight" in caught.value.todo
    for ask in (
        lambda: weights.structure,
        lambda: weights.remaining_weight,
        lambda: weights.remaining_of_encoder,
    ):
        with pytest.raises(MaskMismatch):
            ask()


def test_a_mask_that_removes_everything_is_no_ticket() -> None:
    with pytest.raises(MaskMismatch, match="removes all 12 heads and all 3 FFNs"):
        structured_ticket(mask=~StructureMask.full((4, 4, 4)))
    assert structured_ticket(mask=StructureMask.full((4, 4, 4))).remaining_weight == 1.0


def test_only_the_pretrained_weights_are_a_start() -> None:
    with pytest.raises(MaskMismatch, match="starts from the pre-trained weights") as caught:
        structured_ticket(start={"kind": "rewound", "step": 4}, start_state={"w": torch.ones(1)})
    assert "rewind it to θ0" in caught.value.todo


@pytest.mark.parametrize(
    "sizes",
    [
        None,
        [],
        {},
        {**TINY_SIZES, "more": 1},
        {name: value for name, value in TINY_SIZES.items() if name != "encoder"},
        {**TINY_SIZES, "heads": 4},
        {**TINY_SIZES, "heads": [4, 4]},
        {**TINY_SIZES, "heads": [4, 4, 5]},
        {**TINY_SIZES, "heads": [4, 4, [4]]},
        {**TINY_SIZES, "heads": [4, 4, True]},
        {**TINY_SIZES, "hidden": 8.0},
        {**TINY_SIZES, "hidden": "8"},
        {**TINY_SIZES, "hidden": 0},
        {**TINY_SIZES, "inner": -16},
        {**TINY_SIZES, "parameters": 10**4000},
        {**TINY_SIZES, "parameters": 1599},  # less than its encoder
        {**TINY_SIZES, "encoder": 1535},  # less than its heads and FFNs
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: object) -> None:
    with pytest.raises(TombolaError):
        structured_ticket(model={**structured_ticket().model, "sizes": sizes})


def test_another_kind_of_mask_is_refused() -> None:
    with pytest.raises(MaskMismatch, match="WeightMask or a StructureMask, not a tuple"):
        structured_ticket(mask=(True, False))


def test_the_trainers_callback_names_the_right_way() -> None:
    for given in (structured_ticket(), tiny_structure()):
        with pytest.raises(UsageError, match="needs no callback") as caught:
            TicketCallback(given)
        assert "train what ticket.model(num_labels=...) gives" in caught.value.todo


# --- what people read -------------------------------------------------------------


def test_what_is_printed() -> None:
    lines = str(structured_ticket()).splitlines()
    assert lines[0].split(": ", 1)[1] == (
        "3 layers · heads 8/12 · FFN 2/3 · 74.4 % of the model (68.0 % of the encoder) · "
        "dev 72.5 ± 1.1, n = 5 (full 69.2 ± 1.4)"
    )
    text = "\n".join(lines)
    assert "full    accuracy 69.2 ± 1.4, n = 5\n" in text
    assert "ticket  accuracy 71.8 ± 1.2, n = 5, without the examples the level was chosen on" in text
    assert (
        "level   30 %, chosen on a seeded share of the development set (the seeds chose 30 %, 10 %," in text
    )
    assert "a whole search per seed (0, 1, 2, 3, 4); this is the mask of seed 0" in text
    assert "model = tombola.load(" in text
    assert "latency" not in text, "nothing was measured"
    assert lines[-4:] == [
        "  layer  heads  FFN",
        "      0  ■■□■   ■",
        "      1  ■■■■   □",
        "      2  □□□■   ■",
    ]


def test_one_fixed_mask_over_seeds_is_called_so() -> None:
    results = {**structured_ticket().results, "own_search_per_seed": False}
    assert "one fixed mask retrained with every seed (0, 1, 2, 3, 4)" in str(
        structured_ticket(results=results)
    )


def test_latency_is_shown_where_it_was_measured() -> None:
    measured = tiny_latency()
    measured["cells"] += [{"batch": 8}, "x", {"batch": 1, "length": 1, "models": {"full": {"median": 0}}}]
    text = str(structured_ticket(about={"latency": measured}))
    assert "latency batch 1 × 128 tokens: 30.0 ms, full 40.0 ms, ratio 0.75\n" in text
    assert "on cpu (Some CPU), threads 1, fp32" in text
    assert text.count("latency") == 1


def test_without_results_the_block_says_what_is_known() -> None:
    text = str(structured_ticket(results={}, task=None))
    assert text.splitlines()[0].endswith("74.4 % of the model (68.0 % of the encoder)")
    assert "level" not in text


@pytest.mark.parametrize(
    "results",
    [
        {"levels": "0.3"},
        {"levels": [0.3, "x"]},
        {"levels": [float(10**300)]},
        {"levels": [{}]},
        {"rest_summary": [1]},
        {"rest_summary": {"full": {"mean": "\x1b[2J"}}},
        {"curve": {"a": 1}},
        {"curve": [1, {"level": 0.1}, {"level": 0.1, "remaining": 7, "mean": 1.0}]},
        {"summary": {"ticket": {"mean": 10**400}}},
    ],
)
def test_a_strangers_results_cannot_break_the_block(results: dict[str, object]) -> None:
    text = str(structured_ticket(results=results))
    assert all(letter.isprintable() for letter in text.replace("\n", ""))


def test_a_huge_picture_is_cut() -> None:
    count = 5000
    mask = StructureMask.full([100] * count)
    sizes = {**TINY_SIZES, "heads": [100] * count, "encoder": 2**40, "parameters": 2**41}
    text = str(structured_ticket(mask=mask, model={**structured_ticket().model, "sizes": sizes}))
    assert len(text.splitlines()) < 100
    assert f"{count - 64} more layers" in text
