"""Chunks of settlements: no more of them, and no more text, than one statement can carry."""

from collections.abc import Iterable, Iterator

from django_delayed_tasks.store.settling.settlement import Settlement

LARGEST = 500
LARGEST_TEXT = 1_000_000
"""The number of characters of results and errors at which a chunk is full; a server may limit statements to 16 MB."""


class Chunk:
    """Settlements for one statement."""

    def __init__(self) -> None:
        self.settlements: list[Settlement] = []
        self._text = 0

    def add(self, settlement: Settlement) -> None:
        """Add one settlement."""
        self.settlements.append(settlement)
        self._text += len(settlement.result or "") + len(settlement.error)

    @property
    def is_full(self) -> bool:
        return len(self.settlements) == LARGEST or self._text > LARGEST_TEXT


def in_chunks(settlements: Iterable[Settlement]) -> Iterator[list[Settlement]]:
    """Yield all of the settlements, in chunks."""
    portion = Chunk()
    for settlement in settlements:
        portion.add(settlement)
        if portion.is_full:
            yield portion.settlements
            portion = Chunk()
    if portion.settlements:
        yield portion.settlements
