"""How much the loss depends on every head and every FFN: I = E_x |∂L(x)/∂gate| (super tickets, SPEC 3.1).

Loading this file needs no torch: what was found is chosen from, and drawn, where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from tombola.errors import CorruptArtifact, RecipeError, nearest

if TYPE_CHECKING:
    from torch import nn

    from tombola.tasks.encoding import Encoded
    from tombola.training.recipe import Numerics

#: Of what the absolute value is taken before the sum: an example's gradient, a token's, a whole batch's.
Granularity = Literal["example", "token", "batch"]
GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)


@dataclass(frozen=True)
class Importance:
    """Means over the examples, before any normalisation: every head of every layer, and every layer's FFN."""

    heads: tuple[tuple[float, ...], ...]
    ffns: tuple[float, ...]
    granularity: Granularity
    examples: int
    batch_size: int | None = None  # of granularity batch alone: the others do not depend on it

    def normalised_heads(self) -> tuple[tuple[float, ...], ...]:
        """Every layer's scores divided by their ℓ2 norm; a layer of zeros stays as it is."""
        norms = [math.hypot(*layer) for layer in self.heads]
        return tuple(
            tuple(score / norm for score in layer) if norm else layer
            for layer, norm in zip(self.heads, norms, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; floats come back bit by bit."""
        values = asdict(self) | {"heads": [list(layer) for layer in self.heads], "ffns": list(self.ffns)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, value: Any, where: str = "importance") -> Importance:
        """What ``to_json`` gave, checked; ``where`` names the file in errors."""
        if not isinstance(value, Mapping):
            raise _corrupt("the importance of heads and FFNs is no JSON object", where)
        wanted = {"heads", "ffns", "granularity", "examples"}
        if value.get("granularity") == "batch":
            wanted |= {"batch_size"}
        if set(value) != wanted:
            raise _corrupt(
                f"has the fields {', '.join(map(str, value))} instead of {', '.join(sorted(wanted))}", where
            )
        if value["granularity"] not in GRANULARITIES:
            raise _corrupt(f"granularity is {value['granularity']!r}", where)
        if not isinstance(value["heads"], list):
            raise _corrupt("heads is no list of layers", where)
        heads = tuple(_scores(layer, f"heads[{i}]", where) for i, layer in enumerate(value["heads"]))
        ffns = _scores(value["ffns"], "ffns", where)
        if not heads or len(heads) != len(ffns):
            raise _corrupt(f"has heads of {len(heads)} layers and FFNs of {len(ffns)}", where)
        sizes = {name: value[name] for name in ("examples", "batch_size") if name in value}
        for name, size in sizes.items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise _corrupt(f"{name} is {size!r}", where)
        return cls(heads, ffns, value["granularity"], **sizes)


def importance(
    model: nn.Module,
    data: Encoded,
    numerics: Numerics,
    *,
    granularity: Granularity = "example",
    batch_size: int = 32,
) -> Importance:
    """The importance of all gates on ``data``, in evaluation mode, in one pass; the model is left as it was.

    With ∂L(x)/∂gate of example x the sum of its tokens' parts, the mean over the N examples is

    - ``example``: of |∂L(x)/∂gate|, the paper's text;
    - ``token``: of the sum over tokens of |the token's part|, the authors' code;
    - ``batch``: (1/N) Σ |Σ_{x in batch} ∂L(x)/∂gate|, where a batch is ``batch_size`` consecutive examples of
      ``data`` (the last one may be shorter). It falls with the batch size, which the result records.

    The first two depend neither on the batch size nor on padding, so ``batch_size`` is then only how many
    examples are computed together. ``numerics.micro_batch`` bounds that number in all three.
    """
    if granularity not in GRANULARITIES:
        raise RecipeError(
            f"there is no granularity {granularity!r}",
            where="granularity",
            todo=nearest(str(granularity), GRANULARITIES),
        )
    from tombola.scores.importance_pass import mean_gradients

    heads, ffns = mean_gradients(model, data, numerics, granularity, batch_size)
    recorded = batch_size if granularity == "batch" else None
    return Importance(heads, ffns, granularity, len(data), recorded)


def _scores(value: Any, name: str, where: str) -> tuple[float, ...]:
    fine = isinstance(value, Sequence) and all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and math.isfinite(one) and one >= 0
        for one in value
    )
    if not fine or isinstance(value, str):
        raise _corrupt(f"{name} is no list of numbers of at least 0", where)
    return tuple(float(one) for one in value)


def _corrupt(what: str, where: str) -> CorruptArtifact:
    return CorruptArtifact(what, where=where, todo="compute the importance again")
