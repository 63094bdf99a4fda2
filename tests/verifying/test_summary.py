from __future__ import annotations

import math

import numpy as np
import pytest

from tombola.errors import UsageError
from tombola.verifying.summary import printed, summarize


def test_numbers_are_those_written_out_by_hand() -> None:
    summary = summarize([80.0, 82.0, 87.0])
    assert summary.mean == 83.0
    assert summary.std == math.sqrt((9 + 1 + 16) / 2)  # ddof 1: divided by n − 1
    assert (summary.median, summary.best, summary.n) == (82.0, 87.0, 3)
    assert summarize([1.0, 2.0, 3.0, 10.0]).median == 2.5


def test_std_has_ddof_one_as_numpy_computes_it() -> None:
    """Trap 15: ddof 0 here and 1 there."""
    scores = np.random.default_rng(0).normal(80, 2, 5)
    summary = summarize(scores.tolist())
    assert summary.std == pytest.approx(np.std(scores, ddof=1), rel=1e-12)
    assert abs(summary.std - np.std(scores, ddof=0)) > 0.05


def test_one_run_has_no_std() -> None:
    summary = summarize([82.4])
    assert summary.std is None
    assert str(summary) == "82.4"


def test_equal_scores_have_a_std_of_exactly_zero() -> None:
    assert summarize([82.1] * 7).std == 0.0
    assert summarize([82.1] * 7).mean == 82.1


def test_text() -> None:
    assert str(printed(82.4, 0.5)) == "82.4 ± 0.5"
    assert printed(-0.01, 0.0).text() == "0.0 ± 0.0"
    assert printed(82.444, 0.126).text(2) == "82.44 ± 0.13"


def test_json_is_plain() -> None:
    json = summarize([np.float32(1.0), np.float32(2.0)]).to_json()
    assert json == {"mean": 1.5, "std": math.sqrt(0.5), "median": 1.5, "best": 2.0, "n": 2}
    assert all(type(value) in (float, int) for value in json.values())


def test_scores_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(UsageError, match="no scores"):
        summarize([])
    with pytest.raises(UsageError, match=r"scores\[1\]"):
        summarize([1.0, math.nan])
    with pytest.raises(UsageError, match="inf"):
        summarize([math.inf])
    with pytest.raises(UsageError, match="std"):
        printed(1.0, -0.1)
