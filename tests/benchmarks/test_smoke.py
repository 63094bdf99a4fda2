"""The benchmarks run, on a tiny BERT and made-up lengths; what they measure is not looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.batches import WARM_UP, sample
from benchmarks.setting import Setting, fresh_model, magnitude_mask
from benchmarks.timing import alternating, median_interval
from benchmarks.ways import WAYS, parametrise
from benchmarks.worker import Worker

from benchmarks import fine_tuning, fixed_mask, gemm_roof, help_time, importance, mask_on_disk, report
from tombola.masks.weight_mask import WeightMask


@pytest.fixture(scope="module")
def setting(tiny_bert: Path) -> Setting:
    return Setting(
        model=str(tiny_bert), tasks=("cola", "rte"), batch_size=4, max_length=32, passes=2, strata=2
    )


def fake_times(setting: Setting) -> fine_tuning.Times:
    """Every padded step takes 4 s, every other one 2 s, ours 1 s."""
    seconds = {
        way: {
            task: [
                [4.0] if WAYS[way].padded else [1.0 if way == "ours" else 2.0] * setting.strata
                for _ in range(setting.passes)
            ]
            for task in setting.tasks
        }
        for way in WAYS
    }
    return fine_tuning.Times(setting, seconds)


@pytest.mark.filterwarnings("ignore")  # of transformers' own loop
@pytest.mark.parametrize("name", WAYS)
def test_every_way_takes_every_step(name: str, setting: Setting) -> None:
    turns: list[None] = []
    way = WAYS[name]
    small = setting.with_(tasks=("cola",), passes=1)
    way.loop(small, sample(small, way.grouping, 1), lambda: turns.append(None))
    assert len(turns) == WARM_UP + 1


def test_a_worker_steps_when_it_is_told_to(setting: Setting) -> None:
    with Worker("ours", setting) as worker:
        assert worker.step() > worker.step() > 0  # the first has the start in it


def test_the_sample_has_the_epochs_width(setting: Setting) -> None:
    for grouping in ("buckets", "random", "trainer"):
        full = setting.with_(tasks=("cola",), batch_size=32, passes=3, strata=4)
        batches = sample(full, grouping, 4)
        widths = [batches.width(step) for step in range(WARM_UP, batches.steps)]
        assert len(widths) == 12
        assert np.mean(widths) == pytest.approx(batches.epoch_width["cola"], rel=0.05)


def test_all_ways_train_the_same_ticket(setting: Setting) -> None:
    model = fresh_model(setting)
    mask = magnitude_mask(model, 0.5)
    parametrise(model, mask)
    weights = dict(model.bert.named_parameters()) | {
        name: model.bert.get_submodule(name.removesuffix(".weight")).weight for name in mask.names
    }
    assert WeightMask.of_weights(weights, mask.names) == mask


def test_ratios_are_of_mean_steps(setting: Setting) -> None:
    times = fake_times(setting)
    assert times.ratios("papers", "ours", "cola") == [4.0, 4.0]
    assert times.ratios("Trainer, best", "ours", "rte") == [2.0, 2.0]
    assert times.pairs("ours", "ours, dense", "cola") == [0.5] * 4


def test_flops_of_a_step_as_torch_counts_them(setting: Setting) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    model = fresh_model(setting)
    ids = torch.full((4, 16), 7)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    head = 2 * 4 * model.config.hidden_size * 2  # the classifier is no part of the backbone
    assert gemm_roof.step_flops(model, 4, 16) == 3 * (counter.get_total_flops() - head)


def test_the_page_shows_every_row(setting: Setting, tmp_path: Path) -> None:
    times = fake_times(setting)
    roofs = {"fp32": gemm_roof.roof(setting, 1)}
    profiles = gemm_roof.profiles(setting, (8,), steps=1)
    sections = [
        fine_tuning.section(times),
        fine_tuning.trainer_section(times),
        fixed_mask.section(fixed_mask.alone(setting, 2), [times]),
        mask_on_disk.section(setting, (0.5,)),
        importance.section([setting], lambda _: None, pairs=2, base_pairs=0, lengths=(8,)),
        gemm_roof.section(roofs, [(times, fine_tuning.widths(setting))], profiles),
    ]
    path = tmp_path / "RESULTS.md"
    report.write(path, "- command: test", sections)
    page = path.read_text()
    assert all(row.what in page for section in sections for row in section.rows)
    assert "4.00 (4.00–4.00)" in page


def test_help_needs_no_torch() -> None:
    assert help_time.heavy_imports(["find", "--help"]) == []


def test_a_missed_target_is_said() -> None:
    assert report.Row("x", "1", 1.0, 2.0).cells()[-1] == "**missed**"
    assert report.Row("x", "1", 1.0, 2.0, at_most=True).cells()[-1] == "yes"
    assert report.Row("x", "1", 1.0).cells()[1:] == ("report", "1", "–")


def test_statistics() -> None:
    assert alternating(("a", "b"), 0) == ("a", "b")
    assert alternating(("a", "b"), 1) == ("b", "a")
    assert median_interval([1.0, 3.0, 2.0]) == (2.0, 1.0, 3.0)
    median, low, high = median_interval(list(range(101)))
    assert low < median == 50 < high
