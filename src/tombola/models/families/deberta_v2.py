"""DeBERTa-v2 and v3 (He et al., 2021): BERT's layers whose heads also look at relative positions."""

from __future__ import annotations

from typing import Any

from tombola.errors import UnsupportedModel
from tombola.models.families.family import Family, Role, Sizes, Surgery


def sizes(config: Any) -> Sizes:
    if getattr(config, "conv_kernel_size", 0) > 0:
        raise UnsupportedModel(
            "a convolution beside the first layer is not supported",
            where=f"conv_kernel_size={config.conv_kernel_size} in the configuration",
            todo="take a DeBERTa without one, such as microsoft/deberta-v3-base",
        )
    apart = getattr(config, "relative_attention", False) and not getattr(config, "share_att_key", False)
    kinds = config.pos_att_type or ()
    lacking: list[Role] = []
    if not (apart and "c2p" in kinds):
        lacking.append("position_key")
    if not (apart and "p2c" in kinds):
        lacking.append("position_query")
    return Sizes(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        head_size=getattr(config, "attention_head_size", config.hidden_size // config.num_attention_heads),
        inner=config.intermediate_size,
        lacking=tuple(lacking),
    )


FAMILY = Family(
    model_type="deberta-v2",
    layer="encoder.layer.{}",
    matrices={
        "query": "attention.self.query_proj",
        "key": "attention.self.key_proj",
        "value": "attention.self.value_proj",
        "position_key": "attention.self.pos_key_proj",
        "position_query": "attention.self.pos_query_proj",
        "attention_output": "attention.output.dense",
        "intermediate": "intermediate.dense",
        "output": "output.dense",
    },
    embeddings=("embeddings", "encoder.rel_embeddings", "encoder.LayerNorm"),
    sizes=sizes,
    surgery=Surgery(
        attention="attention.self",
        head_counts=("num_attention_heads",),
        head_widths=("all_head_size",),
        without_ffn={"intermediate": "same", "output": "norm"},
    ),
    head_dropout="cls_dropout",
    own_attention=True,
    not_weights=("embeddings.position_ids",),
    examples=("microsoft/deberta-v3-base", "microsoft/deberta-v3-large"),
)
