"""Lost claims: the database holds them in this executor's name, but its answer to the claim never arrived."""

import logging

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.claimed_task import held_by
from django_delayed_tasks.store.settling.settlement import Settlement

logger = logging.getLogger(__name__)

EVERY, RAREST = 10.0, 60.0
"""Seconds between two searches, at least and at most: a search is slow where full scans are slow."""
SHARE = 0.01
"""The fraction of the time that searches may take."""


class LostClaims:
    """Finds lost claims and releases them. The poller calls it, since only the poller claims."""

    def __init__(self, alias: str, lease: Lease, held: Held) -> None:
        self._alias = alias
        self._lease = lease
        self._held = held
        self._looked = float("-inf")
        self._took = 0.0
        self._has_tried = True

    def may_come(self) -> None:
        """Note that a claim is about to be tried, which may be lost."""
        self._has_tried = True

    def look(self, at_once: bool) -> None:
        """Search for lost claims and release them, if it is time to or ``at_once`` is set."""
        began = clock.monotonic()
        period = max(EVERY, min(RAREST, self._took / SHARE))
        if at_once or (self._has_tried and began - self._looked >= period):
            self._release_all()
            self._has_tried = at_once  # the server may still commit a claim whose connection is already lost
            self._looked, self._took = began, clock.monotonic() - began

    def _release_all(self) -> None:
        # Known claims are read before the query: only the poller claims, so none can be added in between.
        known = self._held.claims()
        lost = held_by(self._alias, self._lease.executor) - known
        if lost:
            logger.warning("releasing %d claims whose answer was lost", len(lost))
        for claim in lost:
            self._held.settle(Settlement(claim, RunOutcome.LOST, Then.RELEASED, keep=False))
