"""Columns of text for a terminal, on which Chinese characters take two places each."""

from collections.abc import Iterable, Sequence
from unicodedata import east_asian_width

from django_delayed_tasks.support.visible import visible


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a line for each row, with its cells below those of the other rows; what is not seen has escapes."""
    lines = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(places, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(padded, line, widths)).rstrip() for line in lines]


def padded(text: str, width: int) -> str:
    """Return the text with spaces up to this number of places."""
    return text + " " * (width - places(text))


def places(text: str) -> int:
    """Return how many places a terminal takes for the text."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
