"""What `bench` and `export` open: tickets with and without a model, smaller models, plain ones; and the full twin."""

from __future__ import annotations

import pytest
import torch
from tests.deploy.cases import HEADLESS, structured_folder, unstructured_folder
from tests.tiny import tiny_bert_folder, tiny_folder

from tombola.deploy.subject import dense_twin, open_subject, tokenizer_of
from tombola.errors import MaskMismatch, UnsupportedModel, UsageError
from tombola.models.anatomy import anatomy_of


def test_a_super_ticket_is_its_trained_smaller_model(super_ticket):
    subject = open_subject(super_ticket)
    assert subject.smaller
    assert subject.trained
    assert subject.said() == "super: TombolaBertForSequenceClassification, heads 1/4, FFN 1/2"
    assert not subject.model.training


def test_its_twin_is_the_full_model_of_the_same_class_and_head(super_ticket):
    model = open_subject(super_ticket).model
    before = torch.random.get_rng_state()
    twin = dense_twin(model)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert type(twin).__name__ == "BertForSequenceClassification"
    anatomy = anatomy_of(twin)
    assert (anatomy.structure, anatomy.heads_per_layer) == (None, (2, 2))
    assert twin.num_labels == model.num_labels == 2
    assert twin.config._attn_implementation == model.config._attn_implementation
    assert all(torch.isfinite(weight).all() for weight in twin.parameters())
    assert anatomy_of(model).structure == HEADLESS, "the model itself stays as it is"


def test_the_folder_of_the_smaller_model_alone_will_do(super_ticket):
    subject = open_subject(super_ticket / "model")
    assert subject.ticket is None
    assert subject.smaller
    assert tokenizer_of(subject).pad_token == "[PAD]"


def test_a_ticket_without_a_model_can_be_measured_but_not_exported(tiny_bert, tmp_path):
    folder = unstructured_folder(tiny_bert, tmp_path / "weights")
    with pytest.raises(UsageError, match="no trained model"):
        open_subject(folder)
    subject = open_subject(folder, base=str(tiny_bert), trained=False)
    assert not subject.trained
    assert "50.0% of its prunable weights are zero" in subject.said()


def test_the_tokenizer_may_come_from_the_base_model_which_must_be_the_tickets(tmp_path):
    base = tiny_bert_folder(tmp_path)
    folder = structured_folder(base, tmp_path / "bare", with_tokenizer=False)
    subject = open_subject(folder)
    with pytest.raises(UsageError, match="its tokenizer is wanted") as told:
        tokenizer_of(subject)
    assert "--model" in told.value.todo
    assert tokenizer_of(subject, str(base)).pad_token == "[PAD]"
    with pytest.raises(MaskMismatch, match="another θ0"):
        tokenizer_of(subject, str(tiny_bert_folder(tmp_path / "other", seed=1)))


@pytest.mark.parametrize(
    ("head", "class_name"),
    [
        ("AutoModel", "BertModel"),
        ("AutoModelForSequenceClassification", "BertForSequenceClassification"),
        ("AutoModelForMaskedLM", "BertForMaskedLM"),
    ],
)
def test_a_plain_model_keeps_its_class(tmp_path, head, class_name):
    folder = tiny_folder(tmp_path / "plain", "bert", head=head)
    subject = open_subject(folder)
    assert type(subject.model).__name__ == class_name
    assert not subject.smaller
    assert type(dense_twin(subject.model)) is type(subject.model)


def test_folders_of_nothing_and_no_folders_say_what_is_wanted(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnsupportedModel, match=r"holds no config\.json"):
        open_subject(tmp_path / "empty")
    with pytest.raises(UsageError, match="no such folder"):
        open_subject(tmp_path / "nowhere")
