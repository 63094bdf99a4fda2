"""Tiny random models in folders, as a user would have them: config, safetensors weights and a fast tokenizer.

``tiny_bert_folder`` is what most rooms need; ``tiny_folder`` makes the other families. Everything is
written by code, nothing is downloaded, and the same arguments give the same weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

#: Words the tiny tokenizer knows whole; anything else falls apart into letters.
WORDS = """
the a an of and or not is was were be it this that film movie story actor actress plot scene ending music
good bad great awful funny boring clever dull bright dark warm cold slow fast long short old new big
small very quite too never always often once more less most least best worst fine poor rich deep flat
sharp soft i you he she we they who what when where why how all some no one two three four five six seven
eight nine love hate like enjoy watch see hear feel think know find lose win make take give leave stay go
come run man woman child boy girl dog cat bird fish horse house street city town country river sea
mountain tree red green blue black white yellow sun moon star rain snow wind fire water earth air day
night morning with without from to in on at by for as but if then than so because while after before over
under out up down her his its their our your my me him them us am are been being has have had do does did
will would can could may might must shall should laugh cry smile tear heart mind hand eye face voice word
line page book
"""
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"-()"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

#: Two layers, hidden 16, two heads, intermediate 32: a transformer that trains in a second.
SMALL: dict[str, dict[str, Any]] = {
    "bert": {
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
    },
    "distilbert": {"n_layers": 2, "dim": 16, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 64},
    "gpt2": {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_inner": 32, "n_positions": 64},
}
SMALL["roberta"] = {
    **SMALL["bert"],
    "type_vocab_size": 1,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
SMALL["electra"] = {**SMALL["bert"], "embedding_size": 8}
SMALL["deberta-v2"] = {
    **SMALL["bert"],
    "type_vocab_size": 0,
    "position_biased_input": False,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 8,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
}
SMALL["modernbert"] = {
    **SMALL["bert"],
    "local_attention": 6,
    "global_attn_every_n_layers": 2,
    "pad_token_id": 0,
    "cls_token_id": 2,
    "bos_token_id": 2,
    "sep_token_id": 3,
    "eos_token_id": 3,
}
#: Families that read pictures: 3 × 8 × 8 pixels in four patches.
SMALL_PICTURES: dict[str, dict[str, Any]] = {
    "vit": {
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "image_size": 8,
        "patch_size": 4,
    }
}
#: The class of each family that answers about a whole input.
CLASSIFIERS = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
    "electra": "ElectraForSequenceClassification",
    "gpt2": "GPT2ForSequenceClassification",
    "deberta-v2": "DebertaV2ForSequenceClassification",
    "modernbert": "ModernBertForSequenceClassification",
    "vit": "ViTForImageClassification",
}


def vocabulary() -> dict[str, int]:
    words = [*SPECIAL, *dict.fromkeys([*WORDS.split(), *LETTERS]), *(f"##{letter}" for letter in LETTERS)]
    return {word: index for index, word in enumerate(words)}


def write_tokenizer(folder: Path, tokenizer_class: str = "BertTokenizerFast") -> None:
    """A lower-casing WordPiece tokenizer ([CLS] a [SEP] b [SEP], token types 0 and 1)."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokens = vocabulary()
    tokenizer = Tokenizer(models.WordPiece(tokens, unk_token="[UNK]"))  # type: ignore[call-arg]
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    tokenizer.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokens["[CLS]"]), ("[SEP]", tokens["[SEP]"])],
    )
    tokenizer.decoder = decoders.WordPiece()  # type: ignore[assignment]
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": tokenizer_class,
        "model_max_length": 64,
        "do_lower_case": True,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))


def tiny_config(family: str = "bert", **config: Any) -> Any:
    """A config of transformers' own class for ``family``, tiny unless ``config`` says otherwise."""
    from transformers import AutoConfig

    if family in SMALL_PICTURES:
        return AutoConfig.for_model(family, **{**SMALL_PICTURES[family], **config})
    return AutoConfig.for_model(family, **{"vocab_size": len(vocabulary()), **SMALL[family], **config})


def tiny_folder(
    folder: Path, family: str = "bert", *, seed: int = 0, head: str = "AutoModel", **config: Any
) -> Path:
    """Write a random model of ``family``, as the Auto class ``head`` saves it, and its tokenizer."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = getattr(transformers, head).from_config(tiny_config(family, **config))
    model.save_pretrained(folder)
    write_tokenizer(
        folder, "BertTokenizerFast" if family in ("bert", "electra") else "PreTrainedTokenizerFast"
    )
    return folder


def tiny_bert_folder(tmp_path: Path, *, seed: int = 0, **config: Any) -> Path:
    """``tmp_path/tiny-bert``: a BERT of 2 layers, hidden 16, 2 heads, intermediate 32, with its pooler."""
    return tiny_folder(tmp_path / "tiny-bert", "bert", seed=seed, **config)


def random_model(
    class_name: str, family: str, *, attention: str = "eager", seed: int = 0, **config: Any
) -> Any:
    """A tiny model with four heads a layer whose every weight is random: biases, LayerNorms and padding rows too."""
    import transformers

    heads = {"distilbert": "n_heads", "gpt2": "n_head"}.get(family, "num_attention_heads")
    settings = tiny_config(family, **{heads: 4, "pad_token_id": 0, **config})
    settings._attn_implementation = attention
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = getattr(transformers, class_name)(settings)
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(0.3 * torch.randn(weight.shape))
    return model.eval()


def random_batch(family: str, *, seed: int = 0, labels: bool = False) -> dict[str, torch.Tensor]:
    """Three sentences of 12, 7 and 3 tokens, padded; or three pictures."""
    generator = torch.Generator().manual_seed(seed)
    if family in SMALL_PICTURES:
        batch = {"pixel_values": torch.randn(3, 3, 8, 8, generator=generator)}
    else:
        present = torch.arange(12)[None] < torch.tensor([12, 7, 3])[:, None]
        tokens = torch.randint(5, 200, (3, 12), generator=generator) * present
        batch = {"input_ids": tokens, "attention_mask": present.long()}
    return batch | ({"labels": torch.randint(2, (3,), generator=generator)} if labels else {})
