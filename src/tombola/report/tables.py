"""A table as people and programs read it: plain text, CSV, JSON, Markdown, LaTeX. Pure functions of a ``Table``."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tombola.studies.artefact import Cell, Table

#: Hex digits that name a run where a person reads it.
RUN_DIGITS = 12
STRONG_MARK = " *"
BETWEEN_COLUMNS = 3


def to_text(table: Table, width: int) -> str:
    """Plain text of at most ``width`` characters a line. Columns that find no room are printed in further blocks
    beneath, the first column repeated, so that no digit is cut off. A cell that wins has an asterisk."""
    texts = _marked_texts(table)
    widths = _column_widths(table, texts, width)
    blocks = [_block(table, texts, chosen, widths, width) for chosen in _column_blocks(widths, width)]
    title = textwrap.fill(_one_line(table.title), width)
    below = ["* wins"] if any(cell.strong for row in table.rows for cell in row) else []
    below += [f"- {_one_line(note)}" for note in table.notes]
    notes = "\n".join(textwrap.fill(note, width, subsequent_indent="  ") for note in below)
    return "\n\n".join(part for part in (title, *blocks, notes) if part) + "\n"


def to_csv(table: Table) -> str:
    """RFC 4180: the values in full precision, empty where there is none, and the runs behind each row."""
    written = io.StringIO(newline="")
    writer = csv.writer(written)
    # A table may count its runs in a column of that name.
    writer.writerow([*table.columns, "run ids" if "runs" in table.columns else "runs"])
    for row in table.rows:
        runs = dict.fromkeys(run[:RUN_DIGITS] for cell in row for run in cell.runs)
        values = ("" if cell.value is None else plain_value(cell.value) for cell in row)
        writer.writerow([*values, " ".join(runs)])
    return written.getvalue()


def to_json(table: Table) -> dict[str, Any]:
    """The whole table as plain JSON: nothing is rounded, nothing left out."""
    return {
        "kind": "table",
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "rows": [
            [
                {
                    "value": plain_value(cell.value),
                    "text": cell.text,
                    "runs": list(cell.runs),
                    "strong": cell.strong,
                }
                for cell in row
            ]
            for row in table.rows
        ],
        "notes": list(table.notes),
    }


def to_markdown(table: Table) -> str:
    """A GitHub table under its title: numbers to the right, winning cells bold, the notes a list beneath."""
    lines = [f"### {markdown_escaped(table.title)}", ""]
    lines.append(_markdown_row(markdown_escaped(column) for column in table.columns))
    lines.append(_markdown_row("---:" if numeric else "---" for numeric in _numeric_columns(table)))
    for row in table.rows:
        lines.append(_markdown_row(_strong(markdown_escaped(cell.text), cell, "**{}**") for cell in row))
    if table.notes:
        lines += ["", markdown_list(table.notes)]
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """A plain ``tabular`` that needs no package; title and notes are comments, for the paper has its own caption."""
    alignment = "".join("r" if numeric else "l" for numeric in _numeric_columns(table))
    lines = [f"% {_one_line(table.title)}", rf"\begin{{tabular}}{{{alignment}}}", r"\hline"]
    lines += [_latex_row(latex_escaped(column) for column in table.columns), r"\hline"]
    for row in table.rows:
        lines.append(_latex_row(_strong(latex_escaped(cell.text), cell, r"\textbf{{{}}}") for cell in row))
    lines += [r"\hline", r"\end{tabular}", *(f"% {_one_line(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def json_text(value: dict[str, Any]) -> str:
    """What a JSON file holds: readable, and equal values give equal text."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def plain_value(value: float | int | str | None) -> float | int | str | None:
    """A value that both JSON and CSV can hold; what is not finite becomes its word (``nan``, ``inf``)."""
    if not isinstance(value, float):
        return value
    return float(value) if math.isfinite(value) else str(float(value))


def markdown_escaped(text: str) -> str:
    """``text`` on one line, read literally by GitHub: no pipe ends the cell, no character formats or links."""
    return re.sub(r"([\\`*_\[\]<>&~|$#])", r"\\\1", _one_line(text))


def markdown_list(texts: Iterable[str]) -> str:
    """An item a text; none begins an inner list with its own dash or number."""
    return "\n".join("- " + re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", markdown_escaped(text)) for text in texts)


def latex_escaped(text: str) -> str:
    """``text`` on one line, set literally by LaTeX without packages; mathematical signs become mathematics."""
    # A hyphen before a number that nothing precedes is its sign; two hyphens would become a dash.
    signed = re.sub(r"(?<![\w.)\]-])-(?=[\d.])", "−", _one_line(text))
    return signed.translate(LATEX).replace("--", "-{}-").replace("--", "-{}-")


MATHEMATICS = {
    **{sign: sign for sign in "<>|"},
    **{"±": r"\pm", "−": "-", "×": r"\times", "·": r"\cdot", "⊙": r"\odot", "°": r"^\circ", "√": r"\surd"},
    **{"≥": r"\ge", "≤": r"\le", "≠": r"\ne", "≈": r"\approx", "∞": r"\infty", "∈": r"\in", "∩": r"\cap"},
    **{"∪": r"\cup", "→": r"\to", "←": r"\gets", "↔": r"\leftrightarrow", "✓": r"\surd", "✗": r"\times"},
    **{"α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\epsilon", "η": r"\eta"},
    **{"θ": r"\theta", "λ": r"\lambda", "μ": r"\mu", "µ": r"\mu", "ρ": r"\rho", "σ": r"\sigma", "τ": r"\tau"},
    **{"φ": r"\phi", "Δ": r"\Delta", "Σ": r"\Sigma", "ℓ": r"\ell", "′": "'", "″": "''"},
    **{sign: f"_{number}" for number, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{sign: f"^{number}" for number, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}
LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        # At the start of a row a bracket or star would be read as an argument of the \\ before it.
        **{sign: f"{{{sign}}}" for sign in "[]*"},
        **{sign: f"${command}$" for sign, command in MATHEMATICS.items()},
    }
)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _strong(written: str, cell: Cell, template: str) -> str:
    return template.format(written) if cell.strong and written else written


def _numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers only: these are aligned at the right."""
    columns = [[row[number].value for row in table.rows] for number in range(len(table.columns))]
    return [
        any(value is not None for value in column) and not any(isinstance(value, str) for value in column)
        for column in columns
    ]


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _marked_texts(table: Table) -> list[list[str]]:
    """The printed cells, the winning ones marked; their neighbours above and below are filled up, so that the
    numbers of a column stay beneath each other."""
    marked = [any(row[number].strong for row in table.rows) for number in range(len(table.columns))]
    blank = " " * len(STRONG_MARK)
    return [
        [
            _one_line(cell.text) + (STRONG_MARK if cell.strong else blank if column_marked else "")
            for cell, column_marked in zip(row, marked, strict=True)
        ]
        for row in table.rows
    ]


def _column_widths(table: Table, texts: list[list[str]], width: int) -> list[int]:
    """Characters of each column. Where not all has room headings are folded between their words, then cells of
    words that take more than a third of the line; a number never."""
    from rich.cells import cell_len

    cells = [max([1, *(cell_len(row[number]) for row in texts)]) for number in range(len(table.columns))]
    folded = [
        size if numeric else min(size, width // 3)
        for size, numeric in zip(cells, _numeric_columns(table), strict=True)
    ]
    headings = [cell_len(_one_line(column)) for column in table.columns]
    words = [max([0, *map(cell_len, column.split())]) for column in table.columns]
    widths: list[int] = []
    for below, above in ((cells, headings), (cells, words), (folded, words)):
        widths = [max(pair) for pair in zip(below, above, strict=True)]
        if sum(widths) + BETWEEN_COLUMNS * len(widths) <= width:
            break
    return widths


def _column_blocks(widths: list[int], width: int) -> list[list[int]]:
    """The columns of each block: as many as fit, always the first one and at least one more."""
    blocks = [[0]] if widths else []
    for number in range(1, len(widths)):
        taken = sum(widths[chosen] + BETWEEN_COLUMNS for chosen in [*blocks[-1], number])
        if len(blocks[-1]) > 1 and taken > width:
            blocks.append([0])
        blocks[-1].append(number)
    return blocks


def _block(table: Table, texts: list[list[str]], chosen: list[int], widths: list[int], width: int) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    numeric = _numeric_columns(table)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for number in chosen:
        heading = Text(_one_line(table.columns[number]))
        justify = "right" if numeric[number] else "left"
        drawn.add_column(heading, width=widths[number], justify=justify, overflow="fold")
    for row in texts:
        drawn.add_row(*(Text(row[number]) for number in chosen))
    written = io.StringIO()
    # In a notebook rich would show the table instead of writing it.
    console = Console(file=written, width=width, force_terminal=False, force_jupyter=False, color_system=None)
    console.print(drawn)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines() if line.strip())
