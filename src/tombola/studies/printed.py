"""Numbers printed in the papers that tables show beside ours; nothing here was measured by tombola."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: BERT tickets, Table 5: HuggingFace's reference scores of BERT-base, by task.
HUGGING_FACE = {
    "mnli": 83.95,
    "qqp": 90.72,
    "sts-b": 89.70,
    "wnli": 53.52,
    "qnli": 89.04,
    "mrpc": 83.82,
    "rte": 61.01,
    "sst-2": 93.00,
    "cola": 57.29,
    "squad": 88.54,
}


@dataclass(frozen=True)
class SuperPrinted:
    """What the super-ticket paper prints of one model; by task, scores in the order of the task's measures."""

    full: dict[str, tuple[float, ...]]
    ticket: dict[str, tuple[float, ...]]
    averages: tuple[float, float]
    remaining: float
    #: Table 6
    std: dict[str, float]
    #: Table 7: mean and std
    remaining_of: dict[str, tuple[float, float]]


_ORDER = ("rte", "mrpc", "cola", "sst-2", "sts-b", "qnli", "qqp", "mnli")
_STD_ORDER = ("rte", "mrpc", "cola", "sts-b", "sst-2", "qnli", "qqp", "mnli")


def _by_task(order: tuple[str, ...], *values: Any) -> dict[str, Any]:
    return dict(zip(order, values, strict=True))


#: Super tickets, Tables 1, 6, 7 (SPEC 3.7).
SUPER_BASE = SuperPrinted(
    full=_by_task(
        _ORDER, (69.2,), (86.2, 90.4), (57.8,), (92.9,), (89.7, 89.2), (91.2,), (90.9, 88.0), (84.5, 84.4)
    ),
    ticket=_by_task(
        _ORDER, (72.5,), (87.5, 91.1), (58.8,), (93.4,), (89.8, 89.4), (91.3,), (91.3, 88.3), (84.5, 84.5)
    ),
    averages=(82.8, 83.7),
    remaining=86.8,
    std=_by_task(_STD_ORDER, 1.09, 0.20, 0.93, 0.07, 0.16, 0.10, 0.08, 0.04),
    remaining_of=_by_task(
        _STD_ORDER,
        *(
            (83.0, 7.0),
            (86.0, 8.0),
            (89.0, 4.0),
            (86.0, 6.0),
            (93.0, 7.0),
            (93.0, 0.0),
            (93.0, 0.0),
            (93.0, 0.0),
        ),
    ),
)
SUPER_LARGE = SuperPrinted(
    full=_by_task(
        _ORDER, (72.1,), (85.2, 89.5), (62.1,), (93.3,), (89.9, 89.6), (92.2,), (91.3, 88.4), (86.2, 86.1)
    ),
    ticket=_by_task(
        _ORDER, (74.1,), (88.0, 91.4), (64.3,), (93.9,), (89.9, 89.7), (92.4,), (91.4, 88.5), (86.5, 86.2)
    ),
    averages=(84.1, 85.1),
    remaining=81.7,
    std=_by_task(_STD_ORDER, 1.46, 0.61, 1.32, 0.16, 0.17, 0.07, 0.11, 0.02),
    remaining_of=_by_task(
        _STD_ORDER,
        *(
            (82.0, 4.0),
            (66.0, 4.0),
            (84.0, 0.0),
            (77.0, 10.0),
            (79.0, 5.0),
            (90.0, 3.0),
            (84.0, 0.0),
            (92.0, 0.0),
        ),
    ),
)
#: The printed numbers are of these models and of no other.
SUPER_PRINTED = {
    "bert-base-uncased": SUPER_BASE,
    "google-bert/bert-base-uncased": SUPER_BASE,
    "bert-large-uncased": SUPER_LARGE,
    "google-bert/bert-large-uncased": SUPER_LARGE,
}
