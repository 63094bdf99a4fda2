"""Numbers printed in the papers that tables show beside ours; nothing here was measured by tombola."""

from __future__ import annotations

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
