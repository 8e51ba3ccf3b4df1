"""The executors that are alive: the place of this one among them, by which claims prefer rows, and their codes."""

from collections.abc import Sequence

from django_delayed_tasks.store.executors import Peer


class Peers:
    """Who is alive, as housekeeping saw it last."""

    def __init__(self) -> None:
        self._executor = 0
        self._live: Sequence[Peer] = ()
        self.codes_elsewhere: frozenset[str] = frozenset()
        """The codes that other live executors have handlers for."""

    def refresh(self, executor: int, live: Sequence[Peer]) -> None:
        """This is ``executor``; ``live`` are all live ones in the order of their ids."""
        self._executor, self._live = executor, live
        self.codes_elsewhere = frozenset().union(*(peer.codes for peer in live if peer.id != executor))

    @property
    def executors(self) -> int:
        """How many are alive."""
        return max(1, len(self._live))

    def among(self, queue: str) -> tuple[int, int]:
        """The place of this one among those that serve the queue, and how many these are; (0, 1) if it is alone."""
        ids = [peer.id for peer in self._live if peer.serves(queue)]
        return (ids.index(self._executor), len(ids)) if self._executor in ids else (0, 1)
