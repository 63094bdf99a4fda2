"""Ticket: what it is (identity), what cannot be one, and what people read about it."""

import copy
import dataclasses
import json

import pytest
import torch
from tests.tickets import POOLER, QUERY, rewound_ticket, tiny_mask, tiny_ticket

from tombola.errors import MaskMismatch, TombolaError
from tombola.masks.weight_mask import WeightMask
from tombola.ticket import Ticket

#: Pinned: a change means that every ticket out there gets another name. Raise the format then, on purpose.
IDENTITY = "f5645bf38c083711474c086116beb6ceb5e5dafaef72f8d09f10f5bc3c588763"
REWOUND_IDENTITY = "332bc032b03a33419bb97c8be2f9db868376975e8c4d10a41909880379f59d2b"


def test_identity_is_pinned() -> None:
    assert tiny_ticket().identity == IDENTITY
    assert rewound_ticket().identity == REWOUND_IDENTITY


def test_identity_covers_everything_but_about() -> None:
    ticket = tiny_ticket()
    same = tiny_ticket(about={"created": "another day", "latency_ms": 3.0})
    assert same == ticket
    assert hash(same) == hash(ticket)
    others = [
        tiny_ticket(mask=~tiny_mask()),
        tiny_ticket(model={**ticket.model, "fingerprint": "f" * 64}),
        tiny_ticket(task=None),
        tiny_ticket(method="random"),
        tiny_ticket(settings={}),
        tiny_ticket(results={}),
        tiny_ticket(parent="d" * 64),
        rewound_ticket(),
        rewound_ticket(start={"kind": "rewound", "step": 41}),
        rewound_ticket(start_state={**(rewound_ticket().start_state or {}), POOLER: torch.zeros(2, 2)}),
    ]
    assert len({other.identity for other in [ticket, *others]}) == 1 + len(others)
    assert ticket != "a ticket"


def test_sparsity_with_and_without_the_pooler() -> None:
    ticket = tiny_ticket()
    assert ticket.sparsity == 6 / 12
    assert ticket.sparsity_without_optional == 4 / 8
    lopsided = tiny_ticket(
        mask=tiny_mask() & WeightMask({QUERY: tiny_mask()[QUERY], POOLER: torch.eye(2) > 0})
    )
    assert (lopsided.sparsity, lopsided.sparsity_without_optional) == (7 / 12, 4 / 8)


def test_an_all_zero_mask_is_no_ticket() -> None:
    """SPEC 5, trap 11."""
    nothing = ~WeightMask.dense(tiny_mask().shapes)
    with pytest.raises(MaskMismatch, match="keeps nothing"):
        tiny_ticket(mask=nothing)
    assert tiny_ticket(mask=~nothing).sparsity == 0.0


def test_a_mask_that_does_not_fit_is_refused_by_name() -> None:
    ticket = tiny_ticket()
    assert ticket.check_against({QUERY: (2, 4), POOLER: (2, 2), "more": (1, 1)}) == ticket.mask
    assert ticket.check_against({QUERY: (2, 4)}).names == (QUERY,)  # the pooler is declared as optional
    with pytest.raises(MaskMismatch) as caught:
        ticket.check_against({POOLER: (2, 2)})
    assert caught.value.where == QUERY
    with pytest.raises(MaskMismatch) as caught:
        ticket.check_against({QUERY: (2, 4), POOLER: (2, 3)})
    assert caught.value.where == POOLER


def test_the_start_must_fit_the_mask() -> None:
    state = dict(rewound_ticket().start_state or {})
    with pytest.raises(MaskMismatch, match="bring no weights"):
        tiny_ticket(start_state=state)
    with pytest.raises(MaskMismatch, match="must bring"):
        tiny_ticket(start={"kind": "rewound", "step": 3})
    with pytest.raises(MaskMismatch) as caught:
        rewound_ticket(start_state={QUERY: state[QUERY]})
    assert caught.value.where == POOLER
    with pytest.raises(MaskMismatch) as caught:
        rewound_ticket(start_state={**state, QUERY: torch.zeros(4, 2)})
    assert caught.value.where == QUERY


@pytest.mark.parametrize(
    "changes",
    [
        {"mask": {QUERY: torch.ones(2, 4)}},
        {"model": "bert"},
        {"model": {"optional": "pooler"}},
        {"model": {"optional": [1]}},
        {"task": "rte"},
        {"method": None},
        {"settings": {"rate": float("nan")}},
        {"settings": {"when": {1, 2}}},
        {"results": {1: "x"}},
        {"parent": 3},
    ],
)
def test_nonsense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(TombolaError):
        tiny_ticket(**changes)


def test_nobody_can_change_a_ticket_from_outside() -> None:
    """SPEC 5, trap 1: the weights a ticket starts from must not follow the live ones."""
    live = {name: tensor.clone() for name, tensor in (rewound_ticket().start_state or {}).items()}
    settings = {"recipe": {"epochs": 3}}
    ticket = rewound_ticket(start_state=live, settings=settings)
    before = ticket.identity
    live[QUERY].zero_()
    settings["recipe"]["epochs"] = 4
    assert ticket.start_state is not None
    assert ticket.start_state[QUERY].count_nonzero() == 8
    assert ticket.identity == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        ticket.method = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        ticket.start_state[QUERY] = torch.zeros(1)  # type: ignore[index]


def test_replaced_and_copied_tickets() -> None:
    ticket = tiny_ticket()
    other = dataclasses.replace(ticket, method="random")
    assert other.method == "random"
    assert other.model.ticket is other
    assert ticket.model.ticket is ticket
    assert copy.copy(ticket) == ticket
    assert json.loads(json.dumps(ticket.model))["family"] == "bert"


def test_the_path_of_a_model_is_not_kept() -> None:
    """DESIGN 5: no paths inside."""
    ticket = tiny_ticket(model={**tiny_ticket().model, "source": "/home/somebody/models/my-bert"})
    assert ticket.model["source"] == "my-bert"
    assert ticket.model["kind"] == "folder"
    assert tiny_ticket().model["source"] == "prajjwal1/bert-tiny"


def test_what_is_printed() -> None:
    text = str(tiny_ticket())
    assert "50.0 % of 12 prunable weights are zero (2 matrices)" in text
    assert "without the optional pooler: 50.0 %" in text
    assert "prajjwal1/bert-tiny at 0123456789abcdef" in text
    assert "accuracy 66.2 ± 3.6, n = 3" in text
    assert "accuracy 66.0, n = 1" in text  # the std of one run is unknown, not 0
    assert "θi, the weights after 40 steps" in str(rewound_ticket())


def test_a_strangers_names_cannot_steer_the_terminal() -> None:
    text = str(
        tiny_ticket(
            task={"name": "\x1b]0;owned\x07\n\u202e"},
            start={"kind": "pretrained", "step": 0},
            results={"summary": {"full": {"mean": 10**400}, "{mask}": {"mean": 1.0, "n": "\x1b[2J"}}},
        )
    )
    assert all(letter.isprintable() for letter in text.replace("\n", ""))
    assert "starts  from {step.__class__}" in str(rewound_ticket(start={"kind": "{step.__class__}"}))


def test_a_ticket_with_nothing_but_a_mask_and_a_model() -> None:
    bare = Ticket(tiny_mask(), {"fingerprint": "a" * 64})
    assert "unnamed" in str(bare)
    assert bare.results == {}
    assert bare.task is None
