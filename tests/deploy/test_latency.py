"""Latency tables: who is called with what and when, what comes back as it was, and what cannot be asked for."""

from __future__ import annotations

import json
from itertools import count

import pytest
import torch
from tests.deploy.cases import HEADLESS, full_model
from tests.tiny import tiny_folder
from torch import nn

from tombola.deploy.inputs import Inputs
from tombola.deploy.latency import LatencyTable, latency
from tombola.deploy.surroundings import surroundings
from tombola.errors import UnsupportedModel, UsageError
from tombola.models.deployed import smaller

READS = Inputs(("input_ids", "attention_mask"), vocabulary=50, longest=64)


def test_every_shape_is_measured_interleaved_on_one_and_the_same_batch():
    seen: list[tuple[str, int, int, int]] = []

    def model(name):
        def answer(batch):
            ids = batch["input_ids"]
            seen.append((name, *ids.shape, id(ids)))
            assert torch.equal(batch["attention_mask"], torch.ones_like(ids))

        return answer

    table = latency(
        {"full": model("full"), "ticket": model("ticket")},
        batches=(1, 2),
        lengths=(4, 8),
        repeats=2,
        warm_up=1,
        inputs=READS,
    )
    shapes = [(1, 4), (2, 4), (1, 8), (2, 8)]
    assert [(cell.batch, cell.length) for cell in table.cells] == shapes
    turn = ["full", "ticket", "ticket", "full", "full", "ticket"]
    assert [call[:3] for call in seen] == [(name, *shape) for shape in shapes for name in turn]
    for start in range(0, len(seen), len(turn)):
        assert len({call[3] for call in seen[start : start + len(turn)]}) == 1


def test_with_a_clock_that_is_told_the_numbers_are_those_written_here():
    ticks = count()
    table = latency(
        {"full": lambda batch: None, "ticket": lambda batch: None},
        batches=(8,),
        lengths=(16,),
        repeats=2,
        warm_up=0,
        inputs=READS,
        clock=lambda: float(next(ticks) ** 2),
    )
    cell = table.cell(8, 16)
    # Squares 0 1 | 4 9 | 16 25 | 36 49: full, ticket, then ticket, full.
    assert cell.timings["full"].seconds == (1.0, 13.0)
    assert cell.timings["ticket"].seconds == (5.0, 9.0)
    assert cell.throughput("ticket") == pytest.approx(8 / 7)
    ratio = cell.ratio("ticket", "full")
    assert (ratio.value, ratio.low, ratio.high) == (1.0, 9 / 13, 5.0)


def test_a_model_is_afterwards_as_it_was(tiny_bert):
    model = full_model(tiny_bert)
    model.train()
    model.bert.pooler.eval()
    modes = [module.training for module in model.modules()]
    threads = torch.get_num_threads()
    during = []
    model.register_forward_pre_hook(
        lambda module, _: during.append(
            (module.training, torch.get_num_threads(), torch.is_inference_mode_enabled())
        )
    )
    latency({"it": model}, batches=(1,), lengths=(4,), repeats=2, warm_up=0, threads=threads + 1)
    assert set(during) == {(False, threads + 1, True)}
    assert [module.training for module in model.modules()] == modes
    assert torch.get_num_threads() == threads


def test_bf16_measures_a_copy_whose_weights_are_bf16(tiny_bert):
    model = full_model(tiny_bert)
    kinds = []
    model.classifier.register_forward_pre_hook(lambda _, given: kinds.append(given[0].dtype))
    table = latency({"it": model}, batches=(1,), lengths=(4,), repeats=2, warm_up=0, precision="bf16")
    assert set(kinds) == {torch.bfloat16}
    assert model.dtype == torch.float32
    assert table.surroundings.precision == "bf16"


def test_less_to_compute_takes_less_time(tiny_bert):
    """The only test here with a real clock: no FFN and no head in a layer that is wide enough to matter."""

    class Wide(nn.Module):
        def __init__(self, times):
            super().__init__()
            self.times, self.matrix = times, nn.Linear(256, 256)

        def forward(self, input_ids, attention_mask):
            hidden = torch.zeros(64, 256)
            for _ in range(self.times):
                hidden = self.matrix(hidden)
            return hidden

    models = {"full": Wide(40), "ticket": Wide(4)}
    table = latency(models, batches=(1,), lengths=(4,), repeats=15, inputs=READS)
    assert table.cells[0].ratio("ticket", "full").value < 0.6


def test_a_smaller_model_is_measured_beside_the_full_one(tiny_bert):
    full = full_model(tiny_bert)
    table = latency({"full": full, "ticket": smaller(full, HEADLESS)}, batches=(2,), lengths=(8,), repeats=2)
    assert table.names == ("full", "ticket")
    assert table.reference == "full"


def test_a_table_survives_as_json():
    table = latency(
        {"a": lambda _: None, "b": lambda _: None}, batches=(1,), lengths=(4, 8), repeats=3, inputs=READS
    )
    document = json.loads(json.dumps(table.to_json()))
    assert LatencyTable.from_json(document) == table
    assert document["cells"][0]["models"]["a"]["ratio"] is None
    assert len(document["cells"][1]["models"]["b"]["ratio"]) == 3
    assert document["cells"][0]["models"]["b"]["median"] > 0


def test_the_surroundings_name_what_a_time_means_nothing_without():
    told = surroundings("cpu", 2, "fp32")
    assert told.versions["torch"] == torch.__version__
    for part in ("cpu", told.capability, "2 threads", "fp32", "torch ", "transformers ", "Python "):
        assert part in str(told)


def test_a_shape_that_was_not_measured_is_refused_with_those_that_were():
    table = latency({"a": lambda _: None}, batches=(1,), lengths=(4,), repeats=2, inputs=READS)
    with pytest.raises(UsageError, match="no batch of 8 × 4 was measured") as told:
        table.cell(8, 4)
    assert "1 × 4" in told.value.todo


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"batches": (0,)}, "a batch of 0 is none"),
        ({"batches": ()}, "no batch is given"),
        ({"lengths": (0,)}, "a length of 0 tokens is none"),
        ({"lengths": (65,)}, "positions for 64 tokens, not for 65"),
        ({"repeats": 1}, "1 is too few"),
        ({"threads": 0}, "0 threads are none"),
        ({"precision": "fp8"}, "no precision 'fp8'"),
        ({"device": "tpu"}, "no device 'tpu'"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_measured(settings, what):
    def never(batch):
        raise AssertionError("called")

    with pytest.raises(UsageError, match=what):
        latency({"it": never}, **{"inputs": READS, "batches": (1,), "lengths": (4,), **settings})


def test_without_models_or_without_inputs_nothing_can_be_measured():
    with pytest.raises(UsageError, match="no model to measure"):
        latency({})
    with pytest.raises(UsageError, match="no model says what it reads"):
        latency({"it": lambda batch: None})
    with pytest.raises(UnsupportedModel, match="no configuration"):
        latency({"it": nn.Linear(2, 2)})


def test_a_model_of_pictures_has_no_lengths(tmp_path):
    from tombola.deploy.subject import open_subject

    folder = tiny_folder(tmp_path / "vit", "vit", head="AutoModelForImageClassification")
    table = latency({"it": open_subject(folder).model}, batches=(1, 2), lengths=(4, 8), repeats=2, warm_up=0)
    assert [cell.batch for cell in table.cells] == [1, 2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_on_a_gpu_a_copy_is_measured_there(tiny_bert, precision):
    model = full_model(tiny_bert)
    places = []
    model.classifier.register_forward_pre_hook(lambda _, given: places.append(given[0].device.type))
    table = latency({"it": model}, batches=(1,), lengths=(4,), repeats=2, device="cuda", precision=precision)
    assert set(places) == {"cuda"}
    assert model.device.type == "cpu"
    assert table.surroundings.device_name == torch.cuda.get_device_name(0)
