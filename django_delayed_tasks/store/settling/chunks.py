"""How many settlements one statement bears."""

from collections.abc import Iterable, Iterator

from django_delayed_tasks.store.settling.settlement import Settlement

LARGEST = 500
LARGEST_TEXT = 1_000_000
"""Characters of results and errors; a server's longest statement may be 16 MB."""


class Chunk:
    """Settlements, until it is full."""

    def __init__(self) -> None:
        self.settlements: list[Settlement] = []
        self._text = 0

    def add(self, settlement: Settlement) -> None:
        """One more."""
        self.settlements.append(settlement)
        self._text += len(settlement.result or "") + len(settlement.error)

    @property
    def is_full(self) -> bool:
        return len(self.settlements) == LARGEST or self._text > LARGEST_TEXT


def in_chunks(settlements: Iterable[Settlement]) -> Iterator[list[Settlement]]:
    """All of them."""
    portion = Chunk()
    for settlement in settlements:
        portion.add(settlement)
        if portion.is_full:
            yield portion.settlements
            portion = Chunk()
    if portion.settlements:
        yield portion.settlements
