"""RoBERTa (Liu et al., 2019): BERT's layers. Its classification class has a deeper head and no pooler."""

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
    )


FAMILY = Family(
    model_type="roberta",
    layer="encoder.layer.{}",
    matrices={
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "attention_output": "attention.output.dense",
        "intermediate": "intermediate.dense",
        "output": "output.dense",
    },
    embeddings=("embeddings",),
    sizes=sizes,
    surgery=Surgery(
        attention="attention.self",
        head_counts=("num_attention_heads",),
        head_widths=("all_head_size",),
        without_ffn={"intermediate": "same", "output": "norm"},
    ),
    pooler="pooler.dense",
    head_dropout="classifier_dropout",
    not_weights=("embeddings.position_ids", "embeddings.token_type_ids"),
    reserved_positions=2,  # positions are counted from behind the padding's own
    examples=("roberta-base", "roberta-large"),
)
