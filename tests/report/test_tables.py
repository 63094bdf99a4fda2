from __future__ import annotations

import csv
import io
import json

import pytest
from tests.report.artefacts import cell, table

from tombola.report.tables import json_text, to_csv, to_json, to_latex, to_markdown, to_text
from tombola.studies.artefact import Table


def one_column(*cells, column="c", title="t", notes=()) -> Table:
    return Table("t", title, (column,), tuple((each,) for each in cells), notes)


def wide_table(columns: int) -> Table:
    names = ("a task with a long name", *(f"quite a long heading {number}" for number in range(columns)))
    row = (cell("CoLA"), *(cell(10.0 + number, f"{10.0 + number} ± 0.5") for number in range(columns)))
    return Table("wide", "A wide table " * 10, names, (row, row), ("a note that is long " * 10,))


def test_text_has_every_cell_the_marks_of_winning_and_the_notes() -> None:
    text = to_text(table(), 100)
    assert text == (
        "Table 4: full model and tickets\n"
        "\n"
        " task      sparsity   full model   winning ticket\n"
        " ────────────────────────────────────────────────\n"
        " MNLI          70 %   82.4 ± 0.5           82.6 *\n"
        " a_b*c|d          –         -1.3\n"
        "\n"
        "* wins\n"
        "- mean of 5 seeds\n"
    )


def test_text_without_a_winner_explains_no_asterisk() -> None:
    assert "*" not in to_text(one_column(cell(1.5)), 80)


@pytest.mark.parametrize("width", [30, 45, 60, 80, 200])
def test_no_line_is_longer_than_the_terminal_and_no_number_is_broken(width: int) -> None:
    wide = wide_table(7)
    text = to_text(wide, width)
    assert max(map(len, text.splitlines())) <= width
    for one in wide.rows[0]:
        assert text.count(one.text) >= 2
    # Every block says which row is which.
    assert text.count("CoLA") == 2 * text.count("──\n")


def test_columns_without_room_go_to_blocks_beneath() -> None:
    assert to_text(wide_table(7), 250).count("──\n") == 1
    assert to_text(wide_table(7), 80).count("──\n") == 2


def test_headings_fold_before_cells_do() -> None:
    text = to_text(wide_table(3), 72)
    assert "quite a long heading" not in text
    assert "a task with a long name" not in text
    assert text.count("──\n") == 1


def test_long_words_fold_but_keep_every_letter() -> None:
    name = "abcdefghij" * 9
    text = to_text(Table("t", "t", ("task", "score"), ((cell(name), cell(82.4)),)), 60)
    assert max(map(len, text.splitlines())) <= 60
    assert "".join(text.replace("82.4", "").split()).endswith(name)


def test_wide_letters_count_as_two() -> None:
    from rich.cells import cell_len

    text = to_text(Table("t", "t", ("任务", "得分"), ((cell("自然语言推理" * 8), cell(82.4)),)), 40)
    assert max(map(cell_len, text.splitlines())) <= 40
    assert "82.4" in text


def test_text_reads_no_markup_and_no_emoji() -> None:
    assert "[bold]x[/bold] :smile:" in to_text(one_column(cell("[bold]x[/bold] :smile:")), 80)


def test_in_a_notebook_text_is_returned_too(monkeypatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "MNLI" in to_text(table(), 80)


def test_a_table_without_rows_or_columns_is_still_text() -> None:
    assert to_text(Table("t", "Empty", ("a", "b"), ()), 40).startswith("Empty\n\n a   b\n")
    assert to_text(Table("t", "Empty", (), ()), 40) == "Empty\n"


def test_csv_gives_back_every_awkward_value() -> None:
    words = ["comma, comma", 'a "quote"', "two\nlines", "semi;colon", " blanks ", "±σ θ₀", "'", "\t", "a|b"]
    written = to_csv(one_column(*map(cell, words), column='column, "one"'))
    heading, *rows = csv.reader(io.StringIO(written, newline=""))
    assert heading == ['column, "one"', "runs"]
    assert [row[0] for row in rows] == words


def test_csv_has_full_precision_and_the_runs_once() -> None:
    value = 0.1 + 0.2
    row = (
        cell(value, "0.3", runs=("a" * 64, "b" * 64)),
        cell(float("nan")),
        cell(None, "–", runs=("a" * 64,)),
    )
    _, read = csv.reader(io.StringIO(to_csv(Table("t", "t", ("x", "y", "z"), (row,))), newline=""))
    assert float(read[0]) == value
    assert read[1:] == ["nan", "", f"{'a' * 12} {'b' * 12}"]


def test_csv_of_a_table_that_counts_its_runs_has_two_different_headings() -> None:
    assert to_csv(one_column(cell(5), column="runs")).splitlines()[0] == "runs,run ids"


def test_json_gives_back_the_whole_table() -> None:
    given = table()
    read = json.loads(json_text(to_json(given)))
    rows = tuple(
        tuple(cell(one["value"], one["text"], runs=tuple(one["runs"]), strong=one["strong"]) for one in row)
        for row in read["rows"]
    )
    back = Table(read["name"], read["title"], tuple(read["columns"]), rows, tuple(read["notes"]))
    assert back == given
    assert read["kind"] == "table"


def test_json_has_words_for_what_json_has_no_numbers_for() -> None:
    read = json.loads(json_text(to_json(one_column(cell(float("nan")), cell(float("-inf"))))))
    assert [row[0]["value"] for row in read["rows"]] == ["nan", "-inf"]


def test_markdown_is_a_table_with_numbers_to_the_right_and_winners_bold() -> None:
    assert to_markdown(table()).splitlines() == [
        "### Table 4: full model and tickets",
        "",
        "| task | sparsity | full model | winning ticket |",
        "| --- | ---: | ---: | ---: |",
        "| MNLI | 70 % | 82.4 ± 0.5 | **82.6** |",
        r"| a\_b\*c\|d | – | -1.3 |  |",
        "",
        "- mean of 5 seeds",
    ]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("a|b", r"\|"),
        ("a\nb", "a b"),
        ("[x](y)", r"\[x\](y)"),
        ("<img>", r"\<img\>"),
        ("`code`", r"\`code\`"),
        ("~~gone~~", r"\~\~gone\~\~"),
        ("$x$", r"\$x\$"),
        ("a\\", "a\\\\"),
        ("&lt;", r"\&lt;"),
    ],
)
def test_markdown_reads_every_character_as_itself(given: str, written: str) -> None:
    lines = to_markdown(one_column(cell(given), column=given)).splitlines()
    assert written in lines[2]
    assert written in lines[4]
    assert len(lines) == 5


def test_markdown_notes_begin_no_lists_of_their_own() -> None:
    lines = to_markdown(
        one_column(cell(1), notes=("- dash", "1. one", "# head", "3 seeds", "-0.5"))
    ).splitlines()
    assert lines[-5:] == [r"- \- dash", r"- 1\. one", r"- \# head", "- 3 seeds", r"- \-0.5"]


def test_latex_is_a_tabular_with_winners_bold() -> None:
    assert to_latex(table()).splitlines() == [
        "% Table 4: full model and tickets",
        r"\begin{tabular}{lrrr}",
        r"\hline",
        r"task & sparsity & full model & winning ticket \\",
        r"\hline",
        r"MNLI & 70 \% & 82.4 $\pm$ 0.5 & \textbf{82.6} \\",
        r"a\_b{*}c$|$d & – & $-$1.3 &  \\",
        r"\hline",
        r"\end{tabular}",
        "% mean of 5 seeds",
    ]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("50 % & more_or #1 {x} $5", r"50 \% \& more\_or \#1 \{x\} \$5"),
        ("a\\b~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("-1.3 − 2.0", "$-$1.3 $-$ 2.0"),
        ("MNLI-m 2-3", "MNLI-m 2-3"),
        ("a--b", "a-{}-b"),
        ("θ₀ ≤ θ0′ × σ²", r"$\theta$$_0$ $\le$ $\theta$0$'$ $\times$ $\sigma$$^2$"),
        ("[0, 1]", "{[}0, 1{]}"),
        ("two\nlines", "two lines"),
    ],
)
def test_latex_sets_every_character_as_itself(given: str, written: str) -> None:
    assert to_latex(one_column(cell(given))).splitlines()[5] == written + r" \\"


def test_latex_comments_stay_comments() -> None:
    latex = to_latex(one_column(cell(1), title="first\nsecond", notes=("third\nfourth",)))
    assert latex.startswith("% first second\n\\begin")
    assert latex.endswith("% third fourth\n")
