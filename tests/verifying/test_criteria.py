from __future__ import annotations

import subprocess
import sys

import pytest

from tombola.errors import UsageError
from tombola.verifying.criteria import (
    CRITERIA,
    degenerate,
    highest_winning,
    match_or_exceed,
    parse,
    within_one_std,
    within_points,
    within_ratio,
)
from tombola.verifying.summary import printed

# SPEC 2.7, the BERT tickets' Table 5 and Table 7, in the paper's order (Table 7 has no MLM column).
TASKS = ["MNLI", "QQP", "STS-B", "WNLI", "QNLI", "MRPC", "RTE", "SST-2", "CoLA", "SQuAD", "MLM"]
FULL = "82.4±.5 90.2±.5 88.4±.3 54.9±1.2 89.1±1.0 85.2±.1 66.2±3.6 92.1±.1 54.5±.4 88.1±.6 63.5±.1"
IMP = "82.6±.2 90.0±.2 88.2±.2 54.9±1.2 88.9±.4 84.9±.4 66.0±2.4 91.9±.5 53.8±.9 87.7±.5 63.2±.3"
TABLE_7 = "82.6±.2 88.5±.2 88.0±.2 56.3±1.0 89.4±.3 83.4±.2 65.1±3.1 92.0±.4 51.6±.3 87.8±.1"
TABLE_6_FULL = "82.4±.5 83.2±.4 90.2±.5 87.0±.3 88.4±.3 88.2±.3 89.2±.2 85.2±.1"
TABLE_6_IMP = "82.6±.2 83.1±.1 90.0±.2 86.9±.1 88.2±.2 88.0±.2 89.0±.3 84.9±.4"


def row(text: str):
    return dict(zip(TASKS, (printed(*map(float, cell.split("±"))) for cell in text.split()), strict=False))


def test_every_printed_one_std_ticket_wins_by_its_own_std() -> None:
    for task, full in row(FULL).items():
        assert within_one_std().holds(full, row(IMP)[task], tolerance=0.1).holds, task
        assert within_one_std().holds(full, row(IMP)[task]).holds, (
            task
        )  # up to round-off, without any tolerance


def test_with_the_full_models_std_four_columns_would_not_hold() -> None:
    by_dense = within_one_std("dense")
    missed = [task for task, full in row(FULL).items() if not by_dense.holds(full, row(IMP)[task]).holds]
    assert missed == ["MRPC", "SST-2", "CoLA", "MLM"]


def test_table_7s_printed_gaps_follow_from_the_tickets_std() -> None:
    full, moved = row(FULL), row(TABLE_7)
    assert within_one_std().holds(full["MRPC"], moved["MRPC"]).gap == pytest.approx(1.6)
    assert within_one_std().holds(full["CoLA"], moved["CoLA"]).gap == pytest.approx(2.6)
    assert within_one_std("dense").holds(full["MRPC"], moved["MRPC"]).gap == pytest.approx(1.7)
    winning = [task for task in moved if within_one_std().holds(full[task], moved[task]).holds]
    assert winning == ["MNLI", "WNLI", "QNLI", "RTE", "SST-2"]


def test_table_6_holds_for_both_metrics() -> None:
    """83.2 ≤ 83.1 + 0.1 must hold, though 83.1 + 0.1 is 83.19999999999999 in floating point."""
    for full, imp in zip(TABLE_6_FULL.split(), TABLE_6_IMP.split(), strict=True):
        full_summary, imp_summary = (printed(*map(float, cell.split("±"))) for cell in (full, imp))
        assert within_one_std().holds(full_summary, imp_summary).holds, (full, imp)


def test_each_criterion_on_its_border() -> None:
    full = [80.0, 82.0]  # mean 81
    assert within_points(2).holds(full, [79.0, 79.0]).holds
    assert not within_points(2).holds(full, [78.9, 79.0]).holds
    assert match_or_exceed().holds(full, [81.0, 81.0]).holds
    assert not match_or_exceed().holds(full, [81.0, 80.9]).holds
    assert within_ratio(0.5).holds(full, [40.5, 40.5]).holds
    assert not within_ratio(0.5).holds(full, [40.4, 40.5]).holds
    assert within_one_std().holds(full, [79.0, 81.0]).holds  # 80 + √2
    assert not within_one_std().holds(full, [80.0, 80.0]).holds
    assert within_one_std("dense").holds(full, [80.0, 80.0]).holds


def test_a_decision_says_what_was_needed_and_what_is_missing() -> None:
    decision = within_points(2).holds([81.0, 81.0], [78.0, 78.5])
    assert (decision.holds, decision.threshold, decision.gap) == (False, 79.0, 0.75)
    assert (
        decision.said == "within_points:2: ticket 78.2 ± 0.4, full 81.0 ± 0.0, needed 79.00: misses by 0.75"
    )
    assert "5 runs" not in decision.said
    assert "the full model has 1 runs, the ticket 2" in within_points().holds([81.0], [81.0, 81.0]).said
    assert "tolerance of 0.1" in match_or_exceed().holds([81.1], [81.0], tolerance=0.1).said


def test_one_run_cannot_be_judged_by_a_std() -> None:
    assert "no standard deviation" in (within_one_std().undecidable([80.0, 81.0], [80.0]) or "")
    assert within_one_std("dense").undecidable([80.0, 81.0], [80.0]) is None
    assert within_points().undecidable([80.0], [80.0]) is None
    with pytest.raises(UsageError, match="no standard deviation"):
        within_one_std().holds([80.0, 81.0], [80.0])


@pytest.mark.parametrize("full", [0.0, -10.0])
def test_a_share_of_nothing_is_refused(full: float) -> None:
    """CoLA's Matthews may be 0 or negative: 0.98 · (−10) = −9.8 would ask for MORE than the full model."""
    with pytest.raises(UsageError, match="above 0"):
        within_ratio(0.98).holds([full], [full])
    assert within_points(2).holds([full], [full - 1]).holds


def test_the_highest_winning_sparsity_is_the_highest_that_holds() -> None:
    grid = {0.5: [81.0, 82.0], 0.6: [70.0, 71.0], 0.7: [79.5, 79.5], 0.8: [60.0, 60.0]}
    assert highest_winning([81.0, 81.0], grid, within_points(2)) == 0.7
    assert highest_winning([81.0, 81.0], grid, match_or_exceed()) == 0.5
    assert highest_winning([99.0, 99.0], grid, match_or_exceed()) is None
    assert highest_winning([81.0], {}, match_or_exceed()) is None


def test_text_forms_round_trip() -> None:
    for text in (
        "within_points:1.5",
        "within_one_std",
        "within_one_std:dense",
        "match_or_exceed",
        "within_ratio:0.9",
    ):
        assert str(parse(text)) == text
    assert parse("within-points") == within_points(2)
    assert parse(" within_ratio ") == within_ratio(0.98)
    assert parse("within_one_std:ticket") == within_one_std()
    assert {str(parse(name)).split(":")[0] for name in CRITERIA} == set(CRITERIA)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("within_point", "did you mean 'within_points'"),
        ("within_points:two", "not a number"),
        ("within_points:", "not a number"),
        ("within_points:-1", "0 points or more"),
        ("within_points:nan", "0 points or more"),
        ("within_ratio:98", "at most 1"),
        ("within_ratio:0", "above 0"),
        ("within_one_std:full", "known: dense, ticket"),
        ("match_or_exceed:2", "no value"),
    ],
)
def test_a_wrong_text_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(text)


def test_wnli_is_degenerate() -> None:
    majority = 100 * 40 / 71  # 56.3: the best of the papers' WNLI runs
    assert degenerate(row(FULL)["WNLI"], majority)
    assert degenerate([majority, majority], majority)
    assert not degenerate([82.0, 82.4], 35.4)
    assert degenerate([0.0, 0.0], 0.0)  # a Matthews of 0


def test_the_room_imports_without_torch() -> None:
    code = (
        "import sys, tombola.verifying.criteria, tombola.verifying.summary, tombola.verifying.significance;"
        "sys.exit(bool({'torch', 'scipy', 'numpy', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
