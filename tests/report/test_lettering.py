from __future__ import annotations

import pytest

from tombola.report.digits import digits_for, number
from tombola.report.lettering import text_height, text_width, wrapped


def test_no_line_is_wider_than_asked_and_no_word_is_lost() -> None:
    text = "the quick brown fox jumps over the lazy dog of some incomprehensibilities"
    lines = wrapped(text, 9, 1.0).split("\n")
    assert len(lines) > 4
    assert all(text_width(line, 9) <= 1.0 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_lines_are_as_full_as_they_can_be() -> None:
    assert wrapped("one two three", 9, 10.0) == "one two three"
    assert wrapped("one two three", 9, text_width("one two", 9)) == "one two\nthree"


def test_a_word_that_is_too_long_is_broken() -> None:
    lines = wrapped("x" * 100, 9, 1.0).split("\n")
    assert "".join(lines) == "x" * 100
    assert all(text_width(line, 9) <= 1.0 for line in lines)
    assert wrapped("ab", 9, 0.001) == "a\nb"


def test_sizes_of_lines() -> None:
    assert text_height("", 9) == 0
    assert text_width("", 9) == 0
    assert text_height("a\nb", 9) == 2 * text_height("a", 9)
    assert text_width("i\nwide", 9) == text_width("wide", 9)
    assert text_width("wide", 9, bold=True) > text_width("wide", 9)


@pytest.mark.parametrize(
    ("values", "printed"),
    [
        ([82.41, -3.06], ["82.4", "−3.1"]),
        ([0.871, 1.0], ["0.87", "1.00"]),
        ([0.0312, -0.0001], ["0.031", "0.000"]),
        ([3.0, -2.0], ["3", "−2"]),
        ([12345.6], ["12346"]),
        ([float("nan"), 1.5], ["nan", "1.5"]),
        ([], []),
    ],
)
def test_numbers_have_the_digits_that_their_size_asks_for(values: list[float], printed: list[str]) -> None:
    digits = digits_for(values)
    assert [number(value, digits) for value in values] == printed
