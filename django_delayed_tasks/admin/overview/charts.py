"""Pictures: the geometry of bars and lines, which templates draw as inline SVG.

Horizontal positions are percentages and vertical ones pixels, so a picture fits any width and its texts keep their
size. No attribute holds a style, so that the page works under a strict Content-Security-Policy.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import floor, log, log10
from typing import Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

HEIGHT, TOP, BOTTOM = 190, 16, 168
"""Pixels of a chart, and the vertical ends of the plot in it; the labels of the time axis are below it."""
GAP: Final = 0.22
"""The part of a column that is left free."""

MARKS: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 3 * 3600.0, 86_400.0, 864_000.0, 8_640_000.0)
"""The seconds that a logarithmic axis has labels for: round numbers of their units."""

Text = Callable[[float], str]
"""A function that writes a value in words."""


_SEGMENT: Final = '<rect class="{}" x="{:.3f}%" y="{:.1f}" width="{:.3f}%" height="{:.1f}"/>'
_COLUMN: Final = '{}<rect class="ddt-hover" x="{:.3f}%" y="{}" width="{:.3f}%" height="{}"><title>{}</title></rect>'


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
    """A chart that a template draws, with the table behind it."""

    label: str
    columns: SafeString
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
    """The values of one bar from bottom to top, in the order of the legend, and the name of its time.

    ``tick``: what is shown below the bar; empty for most.
    """

    name: str
    values: Sequence[float]
    tick: str = ""


def bars(label: str, bars: Sequence[Bar], legend: Sequence[Key], text: Text, head: str) -> Picture:
    """Return a picture of stacked bars; a table row for each bar that is not empty."""
    top = nice_top(max((sum(bar.values) for bar in bars), default=0))
    columns = _joined(_column(number, len(bars), bar, legend, text, top) for number, bar in enumerate(bars))
    grid = [Tick(_y(value, top), text(value)) for value in (top, top / 2)]
    rows = [[bar.name, *map(text, bar.values)] for bar in bars if any(bar.values)]
    return Picture(label, columns, grid, ticks(bars), list(legend), [head, *names(legend)], rows)


def _column(number: int, count: int, bar: Bar, legend: Sequence[Key], text: Text, top: float) -> SafeString:
    width = 100 / count
    segments, below = [], 0.0
    for value, key in zip(bar.values, legend, strict=True):
        if value:
            height = max((BOTTOM - TOP) * value / top, 1.0)
            x = width * (number + GAP / 2)
            segments.append(_SEGMENT.format(key.css, x, _y(below, top) - height, width * (1 - GAP), height))
            below += value
    known = [f"{key.label}: {text(value)}" for value, key in zip(bar.values, legend, strict=True) if value]
    return _hover(number, width, [bar.name, *known] if known else [f"{bar.name}: 0"], "".join(segments))


def _hover(number: int, width: float, lines: Sequence[str], drawn: str = "") -> SafeString:
    """Return the drawing of a column, under a rectangle that shows these lines while the pointer is on it."""
    title = escape("\n".join(lines))
    return mark_safe(_COLUMN.format(drawn, width * number, TOP, width, BOTTOM - TOP, title))


def _joined(parts: Iterable[SafeString]) -> SafeString:
    return mark_safe("\n".join(parts))


def _y(value: float, top: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * value / top, 2)


def nice_top(value: float) -> float:
    """Return a round number that is not less than ``value``, for the top of a scale."""
    if value <= 2:
        return 2.0
    size = 10 ** floor(log10(value))
    return float(next(step * size for step in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10) if step * size >= value))


def lines(label: str, points: Sequence[Bar], legend: Sequence[Key], text: Text, head: str) -> Picture:
    """Return a picture of seconds over time, on a logarithmic scale; a value of 0 or less interrupts its line."""
    known = [value for point in points for value in point.values if value > 0]
    low, *marks = _marks(known)
    high = marks[-1]
    width = 100 / max(1, len(points))
    columns = _joined(
        _hover(number, width, [point.name, *_known(point, legend, text)]) for number, point in enumerate(points)
    )
    grid = [Tick(_log_y(value, low, high), text(value)) for value in reversed(marks)]
    drawn = [
        Line(key.css, _pieces([point.values[number] for point in points], low, high))
        for number, key in enumerate(legend)
    ]
    rows = [[point.name, *(text(v) if v > 0 else "–" for v in point.values)] for point in points if any(point.values)]
    head_row = [head, *names(legend)]
    return Picture(label, columns, grid, ticks(points), list(legend), head_row, rows, drawn)


def _known(point: Bar, legend: Sequence[Key], text: Text) -> list[str]:
    known = [f"{key.label}: {text(v)}" for v, key in zip(point.values, legend, strict=True) if v > 0]
    return known or ["–"]


def _marks(values: Sequence[float]) -> Sequence[float]:
    """Return the marks of an axis, from the one below all values to the one above them, but the last few at most."""
    if not values:
        return MARKS[:4]
    below = sum(mark <= min(values) for mark in MARKS[:-2])
    above = sum(mark < max(values) for mark in MARKS[:-1])
    low = max(0, below - 1)
    return MARKS[low : max(above, low + 1) + 1][-7:]  # more labels would touch each other


def _log_y(value: float, low: float, high: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * _part(value, low, high), 2)


def _part(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, log(value / low) / log(high / low)))


def _pieces(values: Sequence[float], low: float, high: float) -> list[str]:
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


def ticks(bars: Sequence[Bar]) -> list[Tick]:
    """Return the labels of the time axis, each below its bar."""
    found = [(100 * (number + 0.5) / len(bars), bar.tick) for number, bar in enumerate(bars) if bar.tick]
    return [Tick(round(at, 2), name, "end" if at > 97 else "middle") for at, name in found]


def names(legend: Sequence[Key]) -> list[str]:
    """Return the labels of a legend."""
    return [key.label for key in legend]
