"""From a ticket to a model: mask ⊙ start, bitwise; another θ0 refused; the trained model beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tickets import name_again
from tests.tiny import tiny_bert_folder, tiny_folder

from tombola.errors import CorruptArtifact, MaskMismatch, TombolaError, UsageError
from tombola.masks.schedule import zeros_wanted
from tombola.masks.selection import lowest_pruned
from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of, backbone_parameters, head_parameters
from tombola.models.build import HeadSpec, build_model, pretrained_fingerprint, pretrained_state
from tombola.models.resolve import resolve
from tombola.scores.magnitude import magnitude
from tombola.ticket import Ticket, load_model


def ticket_of(base: Path, sparsity: float = 0.6, **changes: Any) -> Ticket:
    """A magnitude ticket of the model in ``base``."""
    source = resolve(str(base))
    anatomy = anatomy_of(build_model(source, HeadSpec("classification", 2), head_seed=0))
    scores = magnitude(pretrained_state(source), anatomy.prunable_names)
    facts: dict[str, Any] = {
        "mask": lowest_pruned(scores, zeros_wanted(anatomy.size, sparsity)),
        "model": {
            "source": str(base),
            "fingerprint": pretrained_fingerprint(source),
            "family": anatomy.family,
            "prefix": anatomy.prefix,
            "optional": list(anatomy.optional),
        },
        "task": {"name": "mine", "kind": "classification", "labels": ["a", "b", "c"]},
    }
    return Ticket(**{**facts, **changes})


def test_the_model_is_the_mask_times_the_start(tiny_bert: Path, tmp_path: Path) -> None:
    ticket = Ticket.from_pretrained(ticket_of(tiny_bert).save_pretrained(tmp_path / "ticket"))
    model = ticket.model(num_labels=3, base=str(tiny_bert))
    start = pretrained_state(resolve(str(tiny_bert)))
    parameters = backbone_parameters(model)
    assert parameters.keys() == start.keys()
    for name, weight in parameters.items():
        expected = start[name] * ticket.weight_mask[name] if name in ticket.weight_mask else start[name]
        assert torch.equal(weight, expected), name
    assert WeightMask.of_weights(parameters, ticket.weight_mask.names).sparsity == ticket.sparsity
    pruned = torch.cat([parameters[name][~ticket.weight_mask[name]] for name in ticket.weight_mask])
    assert not bool(torch.signbit(pruned).any())  # +0.0, as training keeps them
    assert model.config.num_labels == 3
    assert model.training


def test_the_head_is_fresh_and_seeded(tiny_bert: Path) -> None:
    ticket = ticket_of(tiny_bert)
    one, same, other = (
        torch.cat([weight.flatten() for weight in head_parameters(model).values()])
        for model in (ticket.model(base=str(tiny_bert), seed=seed) for seed in (1, 1, 2))
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_number_of_labels_is_the_tasks_own(tiny_bert: Path) -> None:
    base = str(tiny_bert)
    assert ticket_of(tiny_bert).model(base=base).config.num_labels == 3
    regression = ticket_of(tiny_bert, task={"kind": "regression", "labels": []}).model(base=base)
    assert (regression.config.num_labels, regression.config.problem_type) == (1, "regression")
    with pytest.raises(UsageError, match="how many classes"):
        ticket_of(tiny_bert, task=None).model(base=base)


def test_a_rewound_ticket_starts_from_its_own_weights(tiny_bert: Path, tmp_path: Path) -> None:
    state = {name: weight + 1 for name, weight in pretrained_state(resolve(str(tiny_bert))).items()}
    state["head::classifier.weight"] = torch.ones(3, 16)
    ticket = ticket_of(tiny_bert, start={"kind": "rewound", "step": 7}, start_state=state)
    ticket = Ticket.from_pretrained(ticket.save_pretrained(tmp_path / "ticket"))
    model = ticket.model(base=str(tiny_bert))
    for name, weight in backbone_parameters(model).items():
        assert torch.equal(
            weight, state[name] * ticket.weight_mask[name] if name in ticket.weight_mask else state[name]
        )
    assert not any(
        bool((weight == 1).all()) for weight in head_parameters(model).values() if weight.dim() == 2
    )


def test_another_theta0_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    other = tiny_bert_folder(tmp_path, seed=1)
    with pytest.raises(MaskMismatch, match="another θ0"):
        ticket_of(tiny_bert).model(base=str(other))


def test_a_model_that_is_not_at_hand(tiny_bert: Path) -> None:
    with pytest.raises(UsageError, match="a folder called 'tiny-bert', which is not here"):
        ticket_of(tiny_bert).model()
    with pytest.raises(UsageError, match="what its base model is"):
        ticket_of(tiny_bert, model={"fingerprint": "a" * 64}).model()


def test_a_mask_of_foreign_matrices_is_refused_by_name(tiny_bert: Path) -> None:
    foreign = WeightMask({"encoder.layer.7.output.dense.weight": torch.ones(2, 2, dtype=torch.bool)})
    with pytest.raises(MaskMismatch) as caught:
        ticket_of(tiny_bert, mask=foreign).model(base=str(tiny_bert))
    assert caught.value.where == "encoder.layer.7.output.dense.weight"
    wrong = WeightMask({"encoder.layer.0.output.dense.weight": torch.ones(2, 2, dtype=torch.bool)})
    with pytest.raises(MaskMismatch, match="does not fit") as caught:
        ticket_of(tiny_bert, mask=wrong).model(base=str(tiny_bert))
    assert caught.value.where == "encoder.layer.0.output.dense.weight"


def test_gpt2_stores_transposes(tmp_path: Path) -> None:
    base = tiny_folder(tmp_path / "gpt2", "gpt2")
    ticket = ticket_of(base)
    parameters = backbone_parameters(ticket.model(base=str(base)))
    assert WeightMask.of_weights(parameters, ticket.weight_mask.names) == ticket.mask


# --- the trained model ----------------------------------------------------------------


@pytest.fixture
def trained(tiny_bert: Path, tmp_path: Path) -> Path:
    ticket = ticket_of(tiny_bert)
    return ticket.save_pretrained(tmp_path / "ticket", model=ticket.model(base=str(tiny_bert)).eval())


def test_the_trained_model_comes_back(trained: Path, tiny_bert: Path) -> None:
    model = load_model(trained)
    expected = ticket_of(tiny_bert).model(base=str(tiny_bert)).eval()
    for (name, weight), other in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert torch.equal(weight, other), name
    tokens = torch.tensor([[2, 30, 40, 3]])
    with torch.no_grad():
        torch.testing.assert_close(model(tokens).logits, expected(tokens).logits)
    assert "tombola.load(" in (trained / "README.md").read_text()
    assert str(tiny_bert.parent) not in (trained / "model" / "config.json").read_text()


def test_a_ticket_without_a_model_says_so(tiny_bert: Path, tmp_path: Path) -> None:
    ticket_of(tiny_bert).save_pretrained(tmp_path / "ticket")
    with pytest.raises(UsageError, match="no trained model") as caught:
        load_model(tmp_path / "ticket")
    assert ".model(num_labels=" in caught.value.todo


def test_a_model_of_another_sparsity_is_not_saved_beside_the_ticket(tiny_bert: Path, tmp_path: Path) -> None:
    """SPEC 5, traps 10 and 11: the weights decide, not what is said about them."""
    sparser, denser = ticket_of(tiny_bert, 0.7), ticket_of(tiny_bert, 0.5)
    with pytest.raises(MaskMismatch, match="are not zero in this model"):
        sparser.save_pretrained(tmp_path / "ticket", model=denser.model(base=str(tiny_bert)))
    assert not (tmp_path / "ticket").exists()


def test_a_foreign_model_put_beside_the_ticket_is_refused(trained: Path, tiny_bert: Path) -> None:
    build_model(resolve(str(tiny_bert)), HeadSpec("classification", 3), head_seed=0).save_pretrained(
        trained / "model"
    )
    with pytest.raises(CorruptArtifact, match=r"SHA-256|bytes where"):
        load_model(trained)
    for name in ("model.safetensors", "config.json"):
        name_again(trained, f"model/{name}")
    with pytest.raises(MaskMismatch, match="are not zero"):
        load_model(trained)


def test_unnamed_files_in_the_model_are_refused(trained: Path) -> None:
    (trained / "model" / "pytorch_model.bin").write_bytes(b"\x80\x04")
    for load in (load_model, Ticket.from_pretrained):
        with pytest.raises(CorruptArtifact, match=r"pytorch_model\.bin is not named"):
            load(trained)


def test_code_in_the_configuration_is_never_run(trained: Path) -> None:
    config = json.loads((trained / "model" / "config.json").read_text())
    config["auto_map"] = {"AutoModelForSequenceClassification": "evil--repo.Model"}
    (trained / "model" / "config.json").write_text(json.dumps(config))
    name_again(trained, "model/config.json")
    with pytest.raises(CorruptArtifact, match="auto_map"):
        load_model(trained)


@pytest.mark.parametrize("content", [b"[", b"{}", b'{"model_type": "no-such"}', b"[]", b"\xff"])
def test_a_configuration_that_is_none(trained: Path, content: bytes) -> None:
    (trained / "model" / "config.json").write_bytes(content)
    name_again(trained, "model/config.json")
    with pytest.raises(TombolaError):
        load_model(trained)


def test_a_linked_model_folder_is_refused(trained: Path, tmp_path: Path) -> None:
    (trained / "model").rename(tmp_path / "elsewhere")
    (trained / "model").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CorruptArtifact, match="no plain folder"):
        load_model(trained)
