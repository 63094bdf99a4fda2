"""ViT (Dosovitskiy et al., 2021): a pre-LN encoder of picture patches."""

from __future__ import annotations

from typing import Any

from tombola.models.families.family import Family, Sizes, Surgery


def sizes(config: Any) -> Sizes:
    return Sizes(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        head_size=getattr(config, "head_dim", config.hidden_size // config.num_attention_heads),
        inner=config.intermediate_size,
    )


FAMILY = Family(
    model_type="vit",
    layer="layers.{}",
    matrices={
        "query": "attention.q_proj",
        "key": "attention.k_proj",
        "value": "attention.v_proj",
        "attention_output": "attention.o_proj",
        "intermediate": "mlp.fc1",
        "output": "mlp.fc2",
    },
    embeddings=("embeddings",),
    sizes=sizes,
    surgery=Surgery(
        attention="attention",
        head_counts=("num_attention_heads",),
        attention_norm="layernorm_before",
        without_ffn={"layernorm_after": "same", "mlp": "nothing"},
    ),
    pooler="pooler.dense",
    former_names=(
        (r"^encoder\.layer\.", "layers."),
        (r"\.attention\.attention\.(query|key|value)\.", r".attention.\1."),
        (r"\.attention\.(q)uery\.|\.attention\.(k)ey\.|\.attention\.(v)alue\.", r".attention.\1\2\3_proj."),
        (r"\.attention\.output\.dense\.", ".attention.o_proj."),
        (r"\.intermediate\.dense\.", ".mlp.fc1."),
        (r"\.output\.dense\.", ".mlp.fc2."),
    ),
    reads="pictures",
    examples=("google/vit-base-patch16-224",),
)
