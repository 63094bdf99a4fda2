"""What one family of models has to say about itself, so that nothing else in tombola knows its names.

An adapter is one value of ``Family``: where a layer lives, where the weights of each role live inside it, and
how large they are for a given configuration. docs/add-a-family.md goes through one line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

#: What a prunable matrix does (SPEC 2.1). A fused query, key and value is a role of its own.
Role = Literal[
    "query", "key", "value", "query_key_value", "attention_output", "intermediate", "output", "pooler"
]
ATTENTION_ROLES: tuple[Role, ...] = ("query", "key", "value", "query_key_value", "attention_output")
FEED_FORWARD_ROLES: tuple[Role, ...] = ("intermediate", "output")


@dataclass(frozen=True)
class Sizes:
    """The numbers of one configuration that fix every prunable shape."""

    layers: int
    hidden: int
    heads: int
    head_size: int
    inner: int

    def shape(self, role: Role) -> tuple[int, int]:
        """(outputs, inputs) of the matrix of ``role``, as torch.nn.Linear stores it."""
        across_heads = self.heads * self.head_size
        return {
            "query": (across_heads, self.hidden),
            "key": (across_heads, self.hidden),
            "value": (across_heads, self.hidden),
            "query_key_value": (3 * across_heads, self.hidden),
            "attention_output": (self.hidden, across_heads),
            "intermediate": (self.inner, self.hidden),
            "output": (self.hidden, self.inner),
            "pooler": (self.hidden, self.hidden),
        }[role]


@dataclass(frozen=True)
class Family:
    """One family: paths are module paths relative to the backbone, without ``.weight``."""

    model_type: str  # config.model_type, the key in FAMILIES
    layer: str  # path of a layer, with {} for its number
    matrices: Mapping[Role, str]  # role -> path inside a layer, in the order of the computation
    embeddings: tuple[str, ...]  # paths of the embedding part: trained, never pruned
    sizes: Callable[[Any], Sizes]  # configuration -> sizes
    pooler: str | None = None  # path of the pooler's matrix, where some classes have one
    transposed: bool = False  # weights are stored (inputs, outputs), as Conv1D does
    head_dropout: str | None = None  # the configuration's name for the task head's dropout
    not_weights: tuple[str, ...] = ()  # endings of names in old checkpoints that are buffers, not weights
    reserved_positions: int = 0  # rows of the position table that no token can have
    examples: tuple[str, ...] = ()  # hub ids, for the list that users see
