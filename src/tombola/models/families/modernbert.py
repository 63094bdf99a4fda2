"""ModernBERT (Warner et al., 2024): pre-LN, no biases, a fused query, key and value, a gated FFN, rotary positions."""

from __future__ import annotations

from typing import Any

from tombola.models.families.family import Family, Sizes, Surgery


def sizes(config: Any) -> Sizes:
    return Sizes(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        head_size=config.hidden_size // config.num_attention_heads,
        inner=config.intermediate_size,
        gated=True,
    )


FAMILY = Family(
    model_type="modernbert",
    layer="layers.{}",
    matrices={
        "query_key_value": "attn.Wqkv",
        "attention_output": "attn.Wo",
        "intermediate": "mlp.Wi",
        "output": "mlp.Wo",
    },
    embeddings=("embeddings",),
    sizes=sizes,
    surgery=Surgery(
        attention="attn",
        head_counts=(),
        output_dropout="out_drop",
        attention_norm="attn_norm",
        without_ffn={"mlp_norm": "same", "mlp": "nothing"},
    ),
    head_dropout="classifier_dropout",
    examples=("answerdotai/ModernBERT-base", "answerdotai/ModernBERT-large"),
)
