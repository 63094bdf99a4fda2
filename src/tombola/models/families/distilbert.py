"""DistilBERT (Sanh et al., 2019): no pooler and no token types; its task head has a layer more instead."""

from __future__ import annotations

from typing import Any

from tombola.models.families.family import Family, Sizes, Surgery


def sizes(config: Any) -> Sizes:
    return Sizes(
        layers=config.n_layers,
        hidden=config.dim,
        heads=config.n_heads,
        head_size=config.dim // config.n_heads,
        inner=config.hidden_dim,
    )


FAMILY = Family(
    model_type="distilbert",
    layer="transformer.layer.{}",
    matrices={
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "attention_output": "attention.out_lin",
        "intermediate": "ffn.lin1",
        "output": "ffn.lin2",
    },
    embeddings=("embeddings",),
    sizes=sizes,
    surgery=Surgery(attention="attention", head_counts=("n_heads",), without_ffn={"ffn": "nothing"}),
    head_dropout="seq_classif_dropout",
    not_weights=("embeddings.position_ids",),
    examples=("distilbert-base-uncased",),
)
