"""The live executors: the position of this one among them, which gives claims their affinity, and what they run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django_delayed_tasks.store.executors import Peer

ALONE: Final = (0, 1)
"""The place of an executor that shares its queues with no other one: (its position, the number of executors)."""


class Peers:
    """The live executors, as housekeeping saw them last.

    Attributes:
        others: all of them but this one.
    """

    def __init__(self) -> None:
        self._executor = 0
        self._live: Sequence[Peer] = ()
        self.others: Sequence[Peer] = ()

    def refresh(self, executor: int, live: Sequence[Peer]) -> None:
        """Set the id of this ``executor`` and all ``live`` ones, in the order in which they started."""
        self._executor, self._live = executor, live
        self.others = [peer for peer in live if peer.id != executor]

    @property
    def is_first(self) -> bool:
        """Whether this executor is the live one that started first, which does what one of them is to do for all.

        Two may believe so for the time of a heartbeat; none does before its first look at its peers.
        """
        return bool(self._live) and self._live[0].id == self._executor

    @property
    def executors(self) -> int:
        """The number of live executors, at least 1."""
        return max(1, len(self._live))

    def have_lapsed(self, now: datetime) -> bool:
        """Return whether the lease of another executor is over that is not declared dead yet: it may leave tasks."""
        return any(peer.expires_at < now for peer in self.others)

    def among(self, queue: str) -> tuple[int, int]:
        """Return (the position of this executor, the number of executors) among those that serve the queue.

        Return :data:`ALONE` if this executor is alone, or not known to serve it, as before the first look at its peers.
        """
        if not self.others:
            return ALONE
        ids = [peer.id for peer in self._live if peer.serves(queue)]
        return (ids.index(self._executor), len(ids)) if self._executor in ids else ALONE

    def can_run(self, biz_code: str, queue: str) -> bool:
        """Return whether another live executor serves the queue and has a handler for the code."""
        return any(biz_code in peer.codes and peer.serves(queue) for peer in self.others)
