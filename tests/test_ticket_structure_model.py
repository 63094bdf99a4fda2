"""From a structured ticket to a model: physically smaller, ready to be trained, and recognised when it comes back."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import tiny_bert_folder, tiny_folder

from tombola.errors import MaskMismatch
from tombola.masks.structure_mask import StructureMask
from tombola.models.anatomy import anatomy_of, backbone_parameters
from tombola.models.build import HeadSpec, build_model, pretrained_fingerprint, pretrained_state
from tombola.models.gating import gated
from tombola.models.resolve import resolve
from tombola.ticket import Ticket

#: Of two layers with two heads each: the second head of layer 0 and the FFN of layer 1 go.
MASK = StructureMask(((True, False), (True, True)), (True, False))
TOKENS = torch.tensor([[2, 30, 40, 3]])


def full_model(base: Path, seed: int = 0) -> Any:
    return build_model(resolve(str(base)), HeadSpec("classification", 3), head_seed=seed)


def ticket_of(base: Path, **changes: Any) -> Ticket:
    source = resolve(str(base))
    anatomy = anatomy_of(full_model(base))
    facts: dict[str, Any] = {
        "mask": MASK,
        "model": {
            "source": str(base),
            "fingerprint": pretrained_fingerprint(source),
            "family": anatomy.family,
            "prefix": anatomy.prefix,
            "optional": list(anatomy.optional),
            "sizes": asdict(anatomy.structure_sizes),
        },
        "task": {"name": "mine", "kind": "classification", "labels": ["a", "b", "c"]},
    }
    return Ticket(**{**facts, **changes})


@pytest.mark.parametrize("family", ["bert", "distilbert", "gpt2"])
def test_the_model_computes_what_the_gated_full_model_does(tmp_path: Path, family: str) -> None:
    base = tiny_folder(tmp_path / family, family)
    ticket = Ticket.from_pretrained(ticket_of(base).save_pretrained(tmp_path / "ticket"))
    start, whole = ticket.model(base=str(base), seed=5), full_model(base, seed=5)
    assert start.training
    start.eval()
    whole.eval()
    with torch.no_grad():
        with gated(whole, MASK):
            expected = whole(TOKENS).logits
        torch.testing.assert_close(start(TOKENS).logits, expected)
    held = anatomy_of(start)
    assert held.structure == MASK
    assert held.heads_per_layer == (1, 2)
    assert [bool(layer.feed_forward) for layer in held.layers] == [True, False]
    removed = ticket.sizes.removed_weights(MASK)
    assert 0 < removed <= anatomy_of(whole).parameters - held.parameters < 1.2 * removed, "the biases go too"


def test_all_that_is_left_is_theta0(tiny_bert: Path) -> None:
    start = pretrained_state(resolve(str(tiny_bert)))
    for name, weight in backbone_parameters(ticket_of(tiny_bert).model(base=str(tiny_bert))).items():
        if weight.shape == start[name].shape:
            assert torch.equal(weight, start[name]), name


def test_another_theta0_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(MaskMismatch, match="another θ0"):
        ticket_of(tiny_bert).model(base=str(tiny_bert_folder(tmp_path, seed=1)))


def test_sizes_that_are_not_the_models_are_refused(tiny_bert: Path) -> None:
    """Anybody may write a ticket that claims more than it removes."""
    facts = ticket_of(tiny_bert).model
    for name, value in (("parameters", 10**6), ("encoder", facts["sizes"]["encoder"] + 1)):
        boasting = ticket_of(tiny_bert, model={**facts, "sizes": {**facts["sizes"], name: value}})
        with pytest.raises(MaskMismatch, match="says other sizes of its full model"):
            boasting.model(base=str(tiny_bert))


def test_a_mask_of_another_model_is_refused(tiny_bert: Path) -> None:
    facts = ticket_of(tiny_bert).model
    sizes = {**facts["sizes"], "heads": [2, 2, 2], "encoder": 10**5, "parameters": 10**6}
    foreign = ticket_of(
        tiny_bert, mask=StructureMask(((True, False),) * 3, (True,) * 3), model={**facts, "sizes": sizes}
    )
    with pytest.raises(MaskMismatch):
        foreign.model(base=str(tiny_bert))


def test_only_the_tickets_own_model_is_saved_beside_it(tiny_bert: Path, tmp_path: Path) -> None:
    """SPEC 5, traps 10 and 11: what counts is what the model holds."""
    ticket = ticket_of(tiny_bert)
    other = ticket_of(tiny_bert, mask=StructureMask(((False, True), (True, True)), (True, False)))
    for wrong in (full_model(tiny_bert), other.model(base=str(tiny_bert))):
        with pytest.raises(MaskMismatch, match="other parts than the ticket keeps"):
            ticket.save_pretrained(tmp_path / "ticket", model=wrong)
        assert not (tmp_path / "ticket").exists()
    saved = ticket.save_pretrained(tmp_path / "ticket", model=ticket.model(base=str(tiny_bert)))
    assert "model = tombola.load(" in (saved / "README.md").read_text()
    assert Ticket.from_pretrained(saved) == ticket


def test_a_ticket_that_keeps_everything_goes_with_the_full_model(tiny_bert: Path, tmp_path: Path) -> None:
    everything = ticket_of(tiny_bert, mask=StructureMask.full((2, 2)))
    everything.save_pretrained(tmp_path / "ticket", model=full_model(tiny_bert))
    assert anatomy_of(everything.model(base=str(tiny_bert))).heads_per_layer == (2, 2)
