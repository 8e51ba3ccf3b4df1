"""The amount that one statement or transaction takes on, and the cut of more into portions."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

PORTION: Final = 500
"""Rows that one transaction changes, or one statement names or writes: with more of them, others wait for its locks.

A chain of a thousand ORs is deeper than SQLite allows.
"""
MAX_TEXT: Final = 1_000_000
"""Characters of data, numbers, results and errors at which a portion is full, however few its rows are.

A server may limit statements to 16 MB, and a character may take twelve bytes.
"""
MAX_PARTS: Final = 50
"""Parts of a UNION: SQLite allows 500."""
MAX_PURGED: Final = 1000
"""Rows that one transaction deletes of what is no longer needed, and that are read for it: reaping waits meanwhile."""

T = TypeVar("T")


def portions(items: Sequence[T], size: int = PORTION) -> Iterator[Sequence[T]]:
    """Yield the items in portions of ``size``."""
    return (items[start : start + size] for start in range(0, len(items), size))
