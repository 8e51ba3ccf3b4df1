"""Claims that the database says are ours and that we know nothing of: an answer was lost on its way."""

import logging
from collections.abc import Callable

from django_delayed_tasks import clock
from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.settling.reap import held_by
from django_delayed_tasks.store.settling.settlement import Settlement

logger = logging.getLogger(__name__)

EVERY, RAREST = 10.0, 60.0
"""Seconds between two looks for them; these are slow where sweeps are."""
SHARE = 0.01
"""The part of the time that they may take."""


class LostClaims:
    """Looked for by the poller, which alone claims; ``release(settlements)`` takes what is found."""

    def __init__(
        self, alias: str, lease: Lease, inflight: InFlight, release: Callable[[list[Settlement]], None]
    ) -> None:
        self._alias = alias
        self._lease = lease
        self._inflight = inflight
        self._release = release
        self._looked = float("-inf")
        self._took = 0.0
        self._has_tried = True

    def may_come(self) -> None:
        """A claim is about to be tried."""
        self._has_tried = True

    def look(self, at_once: bool) -> None:
        """Release what there is, if it is time to look, or ``at_once``."""
        began = clock.monotonic()
        period = max(EVERY, min(RAREST, self._took / SHARE))
        if at_once or (self._has_tried and began - self._looked >= period):
            self._release_all()
            self._has_tried = at_once  # what the server has not noticed to be lost may still be committed
            self._looked, self._took = began, clock.monotonic() - began

    def _release_all(self) -> None:
        # What is held is asked after what is known: only the poller claims, so nothing can be missing in between.
        known = self._inflight.claims()
        forgotten = held_by(self._alias, self._lease.executor) - known
        if forgotten:
            logger.warning("releasing %d claims whose answer was lost", len(forgotten))
            self._release([Settlement(claim, RunOutcome.LOST, Then.RELEASED, keep=False) for claim in forgotten])
