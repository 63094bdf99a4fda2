"""GPT-2 (Radford et al., 2019): Conv1D stores (inputs, outputs), and query, key and value are one matrix."""

from __future__ import annotations

from typing import Any

from tombola.models.families.family import Family, Sizes, Surgery


def sizes(config: Any) -> Sizes:
    return Sizes(
        layers=config.n_layer,
        hidden=config.n_embd,
        heads=config.n_head,
        head_size=config.n_embd // config.n_head,
        inner=config.n_inner if config.n_inner is not None else 4 * config.n_embd,
    )


FAMILY = Family(
    model_type="gpt2",
    layer="h.{}",
    matrices={
        "query_key_value": "attn.c_attn",
        "attention_output": "attn.c_proj",
        "intermediate": "mlp.c_fc",
        "output": "mlp.c_proj",
    },
    embeddings=("wte", "wpe"),
    sizes=sizes,
    surgery=Surgery(
        attention="attn",
        head_counts=("num_heads",),
        head_widths=("split_size",),
        output_dropout="resid_dropout",
        attention_norm="ln_1",
        without_ffn={"ln_2": "same", "mlp": "nothing"},
    ),
    transposed=True,
    not_weights=(".attn.bias", ".attn.masked_bias"),
    examples=("gpt2", "distilgpt2"),
)
