"""What one family of models has to say about itself, so that nothing else in tombola knows its names.

An adapter is one value of ``Family``: where a layer lives, where the weights of each role live inside it, how
large they are for a given configuration, and what is left of a layer when parts of it are removed.
docs/add-a-family.md goes through one line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

#: What a prunable matrix does (SPEC 2.1). A fused query, key and value is a role of its own; the position
#: roles are DeBERTa's, whose heads also compare contents with relative positions.
Role = Literal[
    "query",
    "key",
    "value",
    "query_key_value",
    "position_key",
    "position_query",
    "attention_output",
    "intermediate",
    "output",
    "pooler",
]
#: Matrices whose outputs are divided among the heads, and how often all heads follow each other there.
HEAD_BLOCKS: Mapping[Role, int] = {
    "query": 1,
    "key": 1,
    "value": 1,
    "query_key_value": 3,
    "position_key": 1,
    "position_query": 1,
}
ATTENTION_ROLES: tuple[Role, ...] = (*HEAD_BLOCKS, "attention_output")
FEED_FORWARD_ROLES: tuple[Role, ...] = ("intermediate", "output")

#: What stands where a removed FFN's modules were (models/stand_ins.py): ``same`` hands on what it is given,
#: ``nothing`` adds zero to the residual, ``norm`` is a post-LN block of which only the LayerNorm is left.
StandIn = Literal["same", "nothing", "norm"]


@dataclass(frozen=True)
class Sizes:
    """The numbers of one configuration that fix every prunable shape."""

    layers: int
    hidden: int
    heads: int
    head_size: int
    inner: int
    gated: bool = False  # the FFN multiplies two halves: its first matrix has twice the rows
    lacking: tuple[Role, ...] = ()  # roles of the family that models of this configuration do not have

    def has(self, role: Role) -> bool:
        """Whether a layer of these sizes has a matrix of ``role``, one of a layer's roles."""
        if role in self.lacking:
            return False
        return bool(self.heads if role in ATTENTION_ROLES else self.inner)

    def shape(self, role: Role) -> tuple[int, int]:
        """(outputs, inputs) of the matrix of ``role``, as torch.nn.Linear stores it."""
        across_heads = self.heads * self.head_size
        if role in HEAD_BLOCKS:
            return (HEAD_BLOCKS[role] * across_heads, self.hidden)
        return {
            "attention_output": (self.hidden, across_heads),
            "intermediate": ((2 if self.gated else 1) * self.inner, self.hidden),
            "output": (self.hidden, self.inner),
            "pooler": (self.hidden, self.hidden),
        }[role]


@dataclass(frozen=True)
class Surgery:
    """How parts leave a layer (SPEC 3.2). Paths are inside a layer."""

    attention: str  # module that is given hidden states and answers (context or output, probabilities)
    head_counts: tuple[str, ...]  # its attributes that say how many heads it has; none if it reads shapes
    without_ffn: Mapping[str, StandIn]  # modules of the FFN -> what stands there without it
    head_widths: tuple[str, ...] = ()  # its attributes that say heads × head size
    output_dropout: str | None = None  # its dropout behind the attention output, where both are inside it
    attention_norm: str | None = None  # pre-LN: the LayerNorm that only the heads read


@dataclass(frozen=True)
class Family:
    """One family: paths are module paths relative to the backbone, without ``.weight``."""

    model_type: str  # config.model_type, the key in FAMILIES
    layer: str  # path of a layer, with {} for its number
    matrices: Mapping[Role, str]  # role -> path inside a layer, in the order of the computation
    embeddings: tuple[str, ...]  # paths of the embedding part: trained, never pruned
    sizes: Callable[[Any], Sizes]  # configuration -> sizes
    surgery: Surgery
    pooler: str | None = None  # path of the pooler's matrix, where some classes have one
    transposed: bool = False  # weights are stored (inputs, outputs), as Conv1D does
    head_dropout: str | None = None  # the configuration's name for the task head's dropout
    not_weights: tuple[str, ...] = ()  # endings of names in old checkpoints that are buffers, not weights
    former_names: tuple[tuple[str, str], ...] = ()  # pattern and replacement for names on disk, in order
    reserved_positions: int = 0  # rows of the position table that no token can have
    reads: Literal["text", "pictures"] = "text"
    own_attention: bool = False  # its attention is its own code, whichever implementation is asked for
    examples: tuple[str, ...] = ()  # hub ids, for the list that users see
