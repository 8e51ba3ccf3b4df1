"""Pictures: the geometry of bars and lines, which templates draw as inline SVG.

Horizontal positions are percentages and vertical ones pixels, so a picture fits any width and its texts keep their
size. No attribute holds a style, so that the page works under a strict Content-Security-Policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Final

HEIGHT: Final = 190
TOP: Final = 16
BOTTOM: Final = 168
"""The vertical ends of the plot; the labels of the time axis are below it."""
GAP: Final = 0.22
"""The part of a column that is left free."""
MOST_TICKS: Final = 5

Text = Callable[[float], str]
"""A function that writes a value in words."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar, with its value in words."""

    y: float
    height: float
    css: str


@dataclass(frozen=True, slots=True)
class Column:
    """A bar of segments; ``title`` is shown while the pointer is on the column."""

    x: float
    width: float
    full_x: float
    full_width: float
    title: str
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class Tick:
    """A label of an axis; ``at`` is a percentage of the width, or pixels from the top."""

    at: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Line:
    """A line, in a square of 100 by 100 that is stretched over the plot."""

    css: str
    points: list[str]


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend."""

    css: str
    label: str
    value: str = ""


@dataclass(frozen=True)
class Picture:
    """What a template draws, with the table behind it."""

    label: str
    columns: list[Column]
    grid: list[Tick]
    ticks: list[Tick]
    legend: list[Key]
    head: list[str]
    rows: list[list[str]]
    lines: list[Line] = field(default_factory=list)
    height: int = HEIGHT
    top: int = TOP
    plot_height: int = BOTTOM - TOP
    bottom: int = BOTTOM

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.rows


@dataclass(frozen=True, slots=True)
class Bar:
    """The values of one bar from bottom to top, in the order of the legend, and the name of its time."""

    name: str
    values: Sequence[float]


def bars(label: str, bars: Sequence[Bar], legend: Sequence[Key], text: Text, head: str) -> Picture:
    """Return a picture of stacked bars; a table row for each bar that is not empty."""
    top = nice_top(max((sum(bar.values) for bar in bars), default=0))
    columns = [_column(number, len(bars), bar, legend, text, top) for number, bar in enumerate(bars)]
    grid = [Tick(_y(value, top), text(value)) for value in (top, top / 2)]
    rows = [[bar.name, *map(text, bar.values)] for bar in bars if any(bar.values)]
    return Picture(label, columns, grid, ticks([bar.name for bar in bars]), list(legend), [head, *names(legend)], rows)


def _column(number: int, count: int, bar: Bar, legend: Sequence[Key], text: Text, top: float) -> Column:
    width = 100 / count
    segments, below = [], 0.0
    for value, key in zip(bar.values, legend, strict=True):
        if value:
            height = max((BOTTOM - TOP) * value / top, 1.0)
            segments.append(Segment(round(_y(below, top) - height, 2), round(height, 2), key.css))
            below += value
    values = "".join(f"\n{key.label}: {text(value)}" for value, key in zip(bar.values, legend, strict=True) if value)
    return Column(
        round(width * (number + GAP / 2), 3), round(width * (1 - GAP), 3), round(width * number, 3), round(width, 3),
        f"{bar.name}{values or ': 0'}", segments,
    )  # fmt: skip


def _y(value: float, top: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * value / top, 2)


def nice_top(value: float) -> float:
    """Return a round number that is not less than ``value``, for the top of a scale."""
    if value <= 2:
        return 2.0
    size = 10 ** floor(log10(value))
    return float(next(step * size for step in (1, 2, 4, 5, 6, 8, 10) if step * size >= value))


def lines(label: str, points: Sequence[Bar], legend: Sequence[Key], text: Text, head: str) -> Picture:
    """Return a picture of lines over time, on a logarithmic scale; a value of 0 or less interrupts its line."""
    known = [value for point in points for value in point.values if value > 0]
    low, high = _decades(known)
    columns = []
    width = 100 / max(1, len(points))
    for number, point in enumerate(points):
        values = "".join(f"\n{key.label}: {text(v)}" for v, key in zip(point.values, legend, strict=True) if v > 0)
        x = round(width * number, 3)
        columns.append(Column(x, round(width, 3), x, round(width, 3), f"{point.name}{values or ': –'}", []))
    grid = [Tick(_log_y(10.0**power, low, high), text(10.0**power)) for power in range(high, low, -1)]
    drawn = [
        Line(key.css, _pieces([point.values[number] for point in points], low, high))
        for number, key in enumerate(legend)
    ]
    rows = [[point.name, *(text(v) if v > 0 else "–" for v in point.values)] for point in points if any(point.values)]
    head_row = [head, *names(legend)]
    return Picture(label, columns, grid, ticks([point.name for point in points]), list(legend), head_row, rows, drawn)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    if not values:
        return -3, 0
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return max(low, high - 6), max(high, low + 1)


def _log_y(value: float, low: int, high: int) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * _part(value, low, high), 2)


def _part(value: float, low: int, high: int) -> float:
    return min(1.0, max(0.0, (log10(value) - low) / (high - low)))


def _pieces(values: Sequence[float], low: int, high: int) -> list[str]:
    """Return the pieces of a line as the points of SVG polylines; one that has a single point is a short dash."""
    pieces: list[list[str]] = [[]]
    width = 100 / max(1, len(values))
    for number, value in enumerate(values):
        if value > 0:
            y = round(100 - 100 * _part(value, low, high), 2)
            pieces[-1].append(f"{width * (number + 0.5):.2f},{y}")
        elif pieces[-1]:
            pieces.append([])
    return [" ".join(piece if len(piece) > 1 else _dash(piece[0], width)) for piece in pieces if piece]


def _dash(point: str, width: float) -> list[str]:
    x, y = point.split(",")
    return [f"{float(x) - width / 3:.2f},{y}", f"{float(x) + width / 3:.2f},{y}"]


def ticks(labels: Sequence[str]) -> list[Tick]:
    """Return some of the labels of the bars, evenly spread, each below its bar."""
    if not labels:
        return []
    step = max(1, ceil(len(labels) / MOST_TICKS))
    found = []
    for number in range(0, len(labels), step):
        at = round(100 * (number + 0.5) / len(labels), 2)
        found.append(Tick(at if number else 0, labels[number], "middle" if number else "start"))
    return found


def names(legend: Sequence[Key]) -> list[str]:
    """Return the labels of a legend."""
    return [key.label for key in legend]
