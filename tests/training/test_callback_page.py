"""docs/callback.md does what it says: its code is run, a tiny model standing in for bert-base-uncased."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tombola.masks.weight_mask import WeightMask
from tombola.models.anatomy import anatomy_of
from tombola.models.build import HeadSpec, build_model, pretrained_fingerprint
from tombola.models.resolve import resolve
from tombola.ticket import Ticket

PAGE = Path(__file__).parents[2] / "docs" / "callback.md"


@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")  # the page is for GPUs too
def test_the_page_runs(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = resolve(str(tiny_bert))
    shapes = anatomy_of(build_model(source, HeadSpec("classification", 2), head_seed=0)).shapes
    draw = torch.Generator().manual_seed(0)
    mask = WeightMask({name: torch.rand(shape, generator=draw) < 0.5 for name, shape in shapes.items()})
    ticket = Ticket(
        mask, {"source": "bert-base-uncased", "fingerprint": pretrained_fingerprint(source), "family": "bert"}
    )
    ticket.save_pretrained(tmp_path / "tickets" / "my-ticket")

    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block.replace("bert-base-uncased", str(tiny_bert)), names)
    printed = capsys.readouterr().out
    assert f"{mask.sparsity:.1%} of the prunable weights are zero, as in the ticket: True" in printed
    model = names["model"]
    assert isinstance(model, torch.nn.Module)
    assert not any(weight._backward_hooks for weight in model.parameters())
