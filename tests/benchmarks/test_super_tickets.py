"""The benchmarks of super tickets run, on a tiny BERT; what they measure is not looked at, what they compute is."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.batches import WARM_UP, sample
from benchmarks.fine_tuning import Times
from benchmarks.search_ways import (
    DENSE,
    IMPORTANCE,
    PAPERS,
    PAPERS_GATED,
    SEARCH_WAYS,
    level_name,
    search_recipe,
)
from benchmarks.setting import Setting, fresh_model
from benchmarks.super_search import Search
from tests.tiny import tiny_bert_folder

from benchmarks import peers, removal, report, super_search
from tombola.masks.levels import LEVELS
from tombola.models.anatomy import anatomy_of


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """Hidden 16, inner 32, two layers of eight heads: as many as a level of 80 % wants."""
    folder = tmp_path_factory.mktemp("model")
    model = tiny_bert_folder(folder, num_attention_heads=8, max_position_embeddings=removal.LENGTH)
    return Setting(model=str(model), tasks=("cola", "rte"), batch_size=2, max_length=32, passes=2, strata=1)


@pytest.fixture(scope="module")
def search(setting: Setting) -> Search:
    """A step of the full model takes 1 s, of a level 0.5, of the importance 0.6, the papers' way 4 and 5 s."""
    seconds = dict.fromkeys(map(level_name, LEVELS), 0.5)
    seconds |= {DENSE: 1.0, IMPORTANCE: 0.6, PAPERS: 4.0, PAPERS_GATED: 5.0}
    padded = frozenset({PAPERS, PAPERS_GATED})
    groups = ([*map(level_name, LEVELS)], [IMPORTANCE, PAPERS, PAPERS_GATED])
    return Search(
        setting,
        "tiny",
        tuple(
            Times(
                setting,
                {
                    way: {task: [[seconds[way]]] * setting.passes for task in setting.tasks}
                    for way in (DENSE, *group)
                },
                padded,
            )
            for group in groups
        ),
    )


@pytest.mark.parametrize("name", SEARCH_WAYS)
def test_every_piece_of_a_search_takes_every_step(name: str, setting: Setting) -> None:
    turns: list[None] = []
    way = SEARCH_WAYS[name]
    small = setting.with_(tasks=("cola",), passes=1)
    way.loop(small, sample(small, way.grouping, 1), lambda: turns.append(None))
    assert len(turns) == WARM_UP + 1


def test_a_search_is_put_together_from_its_pieces(search: Search) -> None:
    assert super_search.epochs() == 6
    assert search.whole("cola", 0) == pytest.approx(6 * (1 + 8 * 0.5) + 0.6)
    assert search.of_own("cola") == pytest.approx([30.6 / 54] * 2)
    assert search.papers("rte") == pytest.approx([6 * (4 + 8 * 5) / 30.6] * 2)
    assert search.of_one("rte") == pytest.approx([30.6 / 24] * 2)


def test_the_search_trains_as_the_paper_of_super_tickets_does(setting: Setting) -> None:
    recipe = search_recipe(setting)
    assert (recipe.optimizer, recipe.early_stopping, recipe.bias_correction) == ("adamax", False, False)
    assert (recipe.batch_size, recipe.max_length) == (2, 32)


def test_half_of_both_is_half_of_the_layers_work(setting: Setting) -> None:
    models = removal.models_of(fresh_model(setting))
    heads_left = [sum(anatomy_of(model).heads_per_layer) for model in models.values()]
    assert heads_left == [16, 12, 8, 16, 8]
    shares = removal.shares_of_flops(models, batch=1)
    heads, ffns, both = (shares[name] for name in ("half of the heads", "half of the FFNs", "half of both"))
    hidden, inner, pooler = 16, 32, 2 * 16**2  # and of 128 tokens, a token's share of the products:
    attention = 2 * 4 * hidden * hidden + 4 * removal.LENGTH * hidden
    feed_forward = 2 * 2 * hidden * inner
    whole = removal.LENGTH * 2 * (attention + feed_forward) + pooler
    assert heads == pytest.approx(1 - removal.LENGTH * attention / whole)
    assert ffns == pytest.approx(1 - removal.LENGTH * feed_forward / whole)
    assert both == pytest.approx(heads + ffns - 1)


def test_the_page_shows_removal_and_search(setting: Setting, search: Search, tmp_path: Path) -> None:
    subjects = [removal.Subject("tiny", fresh_model, 2)]
    sections = [
        removal.section([setting], lambda _: None, subjects, few=2),
        super_search.section([search]),
    ]
    path = tmp_path / "RESULTS-super.md"
    report.write(path, "- command: test", sections)
    page = path.read_text()
    assert all(row.what in page for section in sections for row in section.rows)
    assert len(sections[0].rows) == 2 * 4
    assert "0.57 (0.57–0.57)" in page
    assert "8.63 (8.63–8.63)" in page


def test_without_the_peer_the_page_says_so(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "installed", lambda: False)
    found = peers.section([setting], lambda _: None)
    assert "torch-pruning is not installed" in found.body
    assert not found.rows


def test_lines_are_counted_without_imports_and_docstrings() -> None:
    assert peers.lines_of(peers.by_tombola) == "5 (5)"
    assert peers.lines_of(peers.by_peer) == "26 (14)"


@pytest.mark.skipif(find_spec("torch_pruning") is None, reason="torch-pruning is not installed")
def test_the_peer_is_compared(setting: Setting) -> None:
    found = peers.section([setting], lambda _: None, repeats=2, batches=(1, 2), length=8)
    assert "what was tried" in found.body
    assert len(found.rows) == 3
