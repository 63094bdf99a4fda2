"""Made-up batches: of the right names, sizes and paddings, and only those that a model can take."""

from __future__ import annotations

import pytest
import torch
from tests.deploy.cases import full_model
from tests.tiny import tiny_config

from tombola.deploy.inputs import Inputs, inputs_of, longest_of
from tombola.errors import UnsupportedModel
from tombola.models.build import load_tokenizer
from tombola.models.resolve import resolve


def test_a_bert_reads_ids_mask_and_types(tiny_bert):
    reads = inputs_of(full_model(tiny_bert), load_tokenizer(resolve(str(tiny_bert))))
    assert reads.names == ("input_ids", "attention_mask", "token_type_ids")
    assert reads.longest == 64
    batch = reads.batch(3, 5)
    assert {name: tuple(tensor.shape) for name, tensor in batch.items()} == dict.fromkeys(reads.names, (3, 5))
    assert batch["input_ids"].max() < reads.vocabulary
    assert not (batch["input_ids"] == reads.pad_id).any()


def test_padding_is_at_the_end_marked_and_of_several_lengths():
    batch = Inputs(("input_ids", "attention_mask"), vocabulary=9, pad_id=7).batch(4, 6, padded=True)
    assert batch["attention_mask"].sum(dim=1).tolist() == [6, 3, 6, 1]
    assert ((batch["input_ids"] == 7) == (batch["attention_mask"] == 0)).all()


def test_a_batch_is_its_seeds():
    reads = Inputs(("input_ids",), vocabulary=1000)
    assert torch.equal(reads.batch(2, 8, seed=1)["input_ids"], reads.batch(2, 8, seed=1)["input_ids"])
    assert not torch.equal(reads.batch(2, 8, seed=1)["input_ids"], reads.batch(2, 8, seed=2)["input_ids"])


def test_pictures_have_one_size():
    reads = Inputs(("pixel_values",), picture=(3, 8, 6))
    assert reads.batch(2, 0)["pixel_values"].shape == (2, 3, 8, 6)


@pytest.mark.parametrize(("family", "rows"), [("bert", 64), ("roberta", 62)])
def test_the_longest_input_leaves_out_reserved_positions(family, rows):
    config = tiny_config(family)
    assert longest_of(config) == rows


def test_speech_is_refused():
    class Model(torch.nn.Module):
        config, main_input_name = object(), "input_values"

    with pytest.raises(UnsupportedModel, match="reads input_values"):
        inputs_of(Model())
