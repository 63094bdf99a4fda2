"""What a study gives: tables, figures and archives as typed values. How they look is the report's business."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One entry of a table: the number or word itself, how it is printed, and the runs it was computed from."""

    value: float | int | str | None
    text: str
    #: identities of the runs behind it, in the order of the seeds
    runs: tuple[str, ...] = ()
    #: printed strongly: this ticket wins
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """``name`` is its file's stem (``table-4``); every row has one cell a column."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: a row has {len(row)} cells for {len(self.columns)} columns")


@dataclass(frozen=True)
class Curve:
    """One line of a panel: the mean at every x and, where several seeds ran, mean ± std as a band."""

    label: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float | None, ...]
    runs: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Region:
    """A stretch of a panel's x axis, shaded and named; None: to the end of the axis."""

    label: str
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Panel:
    """One plot of a figure. ``level`` is a horizontal reference such as the majority class, with its label."""

    title: str
    y_label: str
    curves: tuple[Curve, ...]
    level: tuple[float, str] | None = None
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True)
class Curves:
    """A figure of curves, a panel a task; ``x`` are shares (0.7), drawn as percent, falling to the right if
    ``x_falls``."""

    name: str
    title: str
    x_label: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    x_falls: bool = False


@dataclass(frozen=True)
class Heatmap:
    """A figure of numbers: ``dark[i][j]`` where the cell satisfies the rule that ``rule`` words; ``counts`` are the
    numbers at the right (how many targets), None for rows that have none. A value of None is an empty cell."""

    name: str
    title: str
    row_labels: tuple[str, ...]
    column_labels: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    dark: tuple[tuple[bool, ...], ...]
    rule: str
    counts: tuple[int | None, ...] = ()
    row_title: str = "source"
    column_title: str = "target"
    runs: tuple[tuple[tuple[str, ...], ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bar:
    """One bar from 0, with what stands at its end; ``low`` and ``high`` are its error bar. None: no result."""

    label: str
    value: float | None
    text: str
    low: float | None = None
    high: float | None = None
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class BarPanel:
    """Bars of one quantity; ``base`` is where they stand."""

    title: str
    y_label: str
    bars: tuple[Bar, ...]
    base: float = 0.0


@dataclass(frozen=True)
class Bars:
    """A figure of bars: panels above each other, a bar a task in each."""

    name: str
    title: str
    panels: tuple[BarPanel, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Archive:
    """Files that belong together (a benchmark's submission), written as one zip; ``name`` is its stem."""

    name: str
    title: str
    files: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


Figure = Curves | Heatmap | Bars
Artefact = Table | Figure | Archive
