import pytest
import torch
from tests.tiny import SMALL, tiny_bert_folder, tiny_folder


def test_the_tiny_folder_is_what_transformers_loads(tiny_bert):
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    assert tokenizer.is_fast
    encoded = tokenizer("The film was great", "xq", return_tensors="pt")
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"][0]) == [
        "[CLS]", "the", "film", "was", "great", "[SEP]", "x", "##q", "[SEP]",
    ]  # fmt: skip
    assert encoded["token_type_ids"].tolist() == [[0] * 6 + [1] * 3]
    model = AutoModel.from_pretrained(tiny_bert)
    assert model(**encoded).last_hidden_state.shape == (1, 9, 16)


def test_the_tiny_folder_is_the_same_each_time(tiny_bert, tmp_path):
    before = torch.get_rng_state()
    again = tiny_bert_folder(tmp_path)
    assert torch.equal(before, torch.get_rng_state())
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (again / name).read_bytes() == (tiny_bert / name).read_bytes()


@pytest.mark.parametrize("family", sorted(SMALL))
def test_every_family_has_a_tiny_folder(family, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    folder = tiny_folder(tmp_path / family, family)
    encoded = AutoTokenizer.from_pretrained(folder)("the film", return_tensors="pt")
    names = ("input_ids", "attention_mask")
    assert (
        AutoModel.from_pretrained(folder)(**{n: encoded[n] for n in names}).last_hidden_state.shape[2] == 16
    )
