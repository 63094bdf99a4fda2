"""Token ids: exactly those of the tokenizer called directly; the cache is believed only when it fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tombola.errors import DataError, UnsupportedModel
from tombola.tasks import encoding, token_cache
from tombola.tasks.batching import collate
from tombola.tasks.encoding import Encoded, encode
from tombola.tasks.records import Records

FIRST = (
    "the movie was great",
    "awful",
    "a very long story of a man and his dog and the house on the mountain by the sea",
    "",
    "[SEP] is text, too",
)
SECOND = ("i love it", "the music was boring and slow " * 6, "the dog", "never", "why not ?")
SINGLE = Records("dev", FIRST, None, (0, 1, 0, 1, 1), ("no", "yes"))
PAIRS = Records("dev", FIRST, SECOND, (0.0, 1.5, 2.0, 5.0, 4.25), ())


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_bert)


def rows(encoded: Encoded, what: str = "ids") -> list[list[int]]:
    flat = getattr(encoded, what)
    return [flat[a:b].tolist() for a, b in zip(encoded.offsets[:-1], encoded.offsets[1:], strict=True)]


@pytest.mark.parametrize("max_length", [8, 12, 20, 64])
def test_equal_to_the_tokenizer_itself(tokenizer: Any, max_length: int) -> None:
    for records in (SINGLE, PAIRS):
        encoded = encode(records, tokenizer, max_length)
        texts = (
            (list(records.first),) if records.second is None else (list(records.first), list(records.second))
        )
        direct = tokenizer(*texts, truncation="longest_first", max_length=max_length)
        assert rows(encoded) == direct["input_ids"]
        assert rows(encoded, "type_ids") == direct["token_type_ids"]
        whole = tokenizer(*texts)["input_ids"]
        assert encoded.truncated == sum(len(ids) > max_length for ids in whole)
        assert encoded.lengths.tolist() == [len(ids) for ids in direct["input_ids"]]
        assert (encoded.max_length, len(encoded), encoded.pad_id) == (max_length, 5, 0)


def test_collate_is_equal_to_the_tokenizers_padding(tokenizer: Any) -> None:
    encoded = encode(PAIRS, tokenizer, 20)
    batch = collate(encoded, range(5), multiple=1)
    direct = tokenizer(
        list(FIRST), list(SECOND), truncation=True, max_length=20, padding=True, return_tensors="pt"
    )
    assert set(batch) == {*direct, "labels"}
    for name, tensor in direct.items():
        assert torch.equal(batch[name], tensor)
        assert batch[name].dtype == tensor.dtype
    assert batch["labels"].dtype == torch.float32


def test_dtypes(tokenizer: Any) -> None:
    single, pairs = encode(SINGLE, tokenizer, 16), encode(PAIRS, tokenizer, 16)
    assert single.ids.dtype == np.int32
    assert single.targets is not None
    assert pairs.targets is not None
    assert single.targets.dtype == np.int64
    assert pairs.targets.dtype == np.float32
    assert encode(Records("test", FIRST, None, None, ("a", "b")), tokenizer, 16).targets is None


def test_some_examples_are_what_encoding_them_alone_gives(tokenizer: Any) -> None:
    texts = ("the film", "a good movie", "", "bad", "the plot is clever and warm")
    records = Records("dev", texts, texts[::-1], (0, 1, 1, 0, 1), ("no", "yes"))
    chosen = [3, 0, 4]
    some, alone = encode(records, tokenizer, 12).take(chosen), encode(records.take(chosen), tokenizer, 12)
    for name in ("ids", "offsets", "type_ids", "targets"):
        one, other = getattr(some, name), getattr(alone, name)
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist(), name
    assert (some.max_length, some.pad_id, len(some)) == (12, alone.pad_id, 3)


def test_tokenizer_is_left_as_it_was(tokenizer: Any) -> None:
    before = tokenizer.backend_tokenizer.to_str()
    encode(PAIRS, tokenizer, 8)
    assert tokenizer.backend_tokenizer.to_str() == before


def test_chunks_join_without_a_seam(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encode(PAIRS, tokenizer, 16)
    monkeypatch.setattr(encoding, "CHUNK", 2)
    pieces = encode(PAIRS, tokenizer, 16)
    assert np.array_equal(whole.ids, pieces.ids)
    assert np.array_equal(whole.offsets, pieces.offsets)
    assert whole.truncated == pieces.truncated


def test_what_cannot_be_encoded(tokenizer: Any) -> None:
    with pytest.raises(DataError, match="leaves no text"):
        encode(SINGLE, tokenizer, 3)
    with pytest.raises(UnsupportedModel, match="not a fast tokenizer"):
        encode(SINGLE, object(), 16)


def test_missing_padding_token_is_said(tiny_bert: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    tokenizer.pad_token = None
    with pytest.raises(UnsupportedModel, match="no padding token"):
        encode(SINGLE, tokenizer, 16)


@pytest.fixture
def no_encoding(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often texts are really tokenised."""
    calls: list[int] = []
    real = encoding._tokenise

    def counted(records: Records, *rest: Any) -> Any:
        calls.append(len(records))
        return real(records, *rest)

    monkeypatch.setattr(encoding, "_tokenise", counted)
    return calls


def test_cache_gives_the_same_without_encoding(
    tokenizer: Any, tmp_path: Path, no_encoding: list[int]
) -> None:
    first = encode(PAIRS, tokenizer, 16, cache=tmp_path)
    second = encode(PAIRS, tokenizer, 16, cache=tmp_path)
    assert no_encoding == [5]
    assert rows(first) == rows(second)
    assert rows(first, "type_ids") == rows(second, "type_ids")
    assert (first.truncated, first.ids.dtype) == (second.truncated, second.ids.dtype)


def test_cache_is_keyed_by_all_that_matters(
    tokenizer: Any, tiny_bert: Path, tmp_path: Path, no_encoding: list[int]
) -> None:
    from transformers import AutoTokenizer

    encode(PAIRS, tokenizer, 16, cache=tmp_path)
    encode(PAIRS, tokenizer, 17, cache=tmp_path)
    encode(PAIRS.take([0, 1, 2, 3]), tokenizer, 16, cache=tmp_path)
    other = AutoTokenizer.from_pretrained(tiny_bert)
    other.add_tokens(["mountain by"])
    encode(PAIRS, other, 16, cache=tmp_path)
    assert no_encoding == [5, 5, 4, 5]
    # A tokenizer used meanwhile with another truncation is the same tokenizer.
    tokenizer(list(FIRST), truncation=True, max_length=9, padding=True)
    encode(PAIRS, tokenizer, 16, cache=tmp_path)
    assert no_encoding == [5, 5, 4, 5]


def damage(kind: str, path: Path) -> None:
    content = bytearray(path.read_bytes())
    if kind == "flipped bit":
        content[-3] ^= 4
    elif kind == "flipped header":
        content[20] ^= 1
    elif kind == "truncated":
        del content[len(content) // 2 :]
    elif kind == "empty":
        content.clear()
    elif kind == "huge header":
        content[:8] = (2**62).to_bytes(8, "little")
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("kind", ["flipped bit", "flipped header", "truncated", "empty", "huge header"])
def test_damaged_cache_is_encoded_again(
    tokenizer: Any, tmp_path: Path, no_encoding: list[int], kind: str
) -> None:
    good = encode(PAIRS, tokenizer, 16, cache=tmp_path)
    (file,) = tmp_path.rglob("*.safetensors")
    damage(kind, file)
    again = encode(PAIRS, tokenizer, 16, cache=tmp_path)
    assert rows(again) == rows(good)
    encode(PAIRS, tokenizer, 16, cache=tmp_path)
    assert no_encoding == [5, 5], "encoded again once, and repaired"


def test_a_file_of_other_data_is_not_believed(tokenizer: Any, tmp_path: Path) -> None:
    encode(PAIRS, tokenizer, 16, cache=tmp_path)
    (file,) = tmp_path.rglob("*.safetensors")
    key = file.stem
    assert token_cache.read(tmp_path, key, 5) is not None
    assert token_cache.read(tmp_path, key, 4) is None
    other = "0" * 64
    (tmp_path / "00").mkdir()
    (tmp_path / "00" / f"{other}.safetensors").write_bytes(file.read_bytes())
    assert token_cache.read(tmp_path, other, 5) is None


def test_cache_that_cannot_be_written_costs_nothing(tokenizer: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert len(encode(SINGLE, tokenizer, 16, cache=blocked)) == 5


def test_an_empty_text_without_special_tokens_is_one_pad_token(tmp_path):
    """GPT-2's tokenizer adds nothing: a batch of empty texts would have no column at all."""
    from tests.tiny import tiny_folder

    from tombola.models.build import load_tokenizer
    from tombola.models.resolve import resolve
    from tombola.tasks.batching import collate

    tokenizer = load_tokenizer(resolve(str(tiny_folder(tmp_path / "gpt2", "gpt2"))))
    tokenizer.backend_tokenizer.post_processor = None
    records = Records("train", ("", ""), None, (0, 1), ("no", "yes"), rule="written here")
    encoded = encode(records, tokenizer, 16)
    assert encoded.lengths.tolist() == [1, 1]
    assert collate(encoded, [0, 1])["input_ids"].shape[0] == 2
