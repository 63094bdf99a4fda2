"""Text of figures, measured before anything is drawn, so that labels get the room they need and none is cut off."""

from __future__ import annotations

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

POINTS_PER_INCH = 72
#: Ships with matplotlib, so that the same figure has the same bytes wherever it is drawn.
FAMILY = "DejaVu Sans"
#: From one line to the next, in sizes of the font.
LEADING = 1.25
#: From the top of a line to the foot of its letters: capitals, 0.73 high, stand in the middle.
BASELINE = (LEADING + 0.73) / 2
#: Screens set text on whole pixels, a few percent wider than it is.
SLACK = 1.04


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Inches that the longest line of ``text`` takes at ``size`` points."""
    font = FontProperties(family=FAMILY, size=size, weight="bold" if bold else "normal")
    widths = (text_to_path.get_text_width_height_descent(line, font, False)[0] for line in text.split("\n"))
    return max(widths) * SLACK / POINTS_PER_INCH


def text_height(text: str, size: float) -> float:
    """Inches that the lines of ``text`` take at ``size`` points, 0 for no text."""
    return (text.count("\n") + 1) * size * LEADING / POINTS_PER_INCH if text else 0.0


def wrapped(text: str, size: float, width: float, *, bold: bool = False) -> str:
    """``text`` broken into lines of at most ``width`` inches; a longer word is broken as well."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        joined = f"{line} {word}".lstrip()
        if text_width(joined, size, bold=bold) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        line = word
        while len(line) > 1 and text_width(line, size, bold=bold) > width:
            fits = _fitting(line, size, width, bold)
            lines.append(line[:fits])
            line = line[fits:]
    return "\n".join([*lines, line])


def _fitting(word: str, size: float, width: float, bold: bool) -> int:
    """How many characters of ``word`` fit, at least one."""
    for length in range(len(word) - 1, 1, -1):
        if text_width(word[:length], size, bold=bold) <= width:
            return length
    return 1
