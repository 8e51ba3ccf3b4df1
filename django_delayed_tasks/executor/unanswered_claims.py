"""Claims that the database made for this executor, but whose answer never arrived: found, and released."""

from django_delayed_tasks import clock
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.claimed_task import held_by
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

SEARCH_EVERY, MAX_PAUSE = 10.0, 60.0
"""Seconds between two searches, at least and at most: slow ones, as where full scans are slow, take a hundredth of the
time."""


class UnansweredClaims:
    """Unanswered claims: the database holds them in this executor's name, and its answer to the claim never arrived."""

    def __init__(self, alias: str, lease: Lease, held: Held) -> None:
        self._alias = alias
        self._lease = lease
        self._held = held
        self._look_at = clock.monotonic() + SEARCH_EVERY
        self._has_tried = self._has_lost = False

    def note_try(self) -> None:
        """Note that a claim is made, whose answer may be lost."""
        self._has_tried = True

    def note_lost(self) -> None:
        """Note that a claim has failed, so that its answer may be lost; they are searched for at the next poll."""
        self._has_lost = True

    def look(self) -> None:
        """Search for unanswered claims and release them, if it is time to do so."""
        if self._has_lost or (self._has_tried and clock.monotonic() >= self._look_at):
            self._look()

    def _look(self) -> None:
        began, at_once = clock.monotonic(), self._has_lost
        self._has_lost = False
        if not self._release_all():
            self._has_lost = True  # looked at again at the next poll
            return
        self._has_tried = at_once  # the server may still commit a claim whose connection is already lost
        took = clock.monotonic() - began
        self._look_at = began + max(SEARCH_EVERY, min(MAX_PAUSE, 100 * took))

    def _release_all(self) -> bool:
        """Release the unanswered claims; return False if that cannot be told now."""
        # Read the claims before the query, because some may end meanwhile, and again after it, because lanes may claim
        # others.
        known = self._held.claims()
        unanswered = held_by(self._alias, self._lease.executor) - known
        if unanswered and not self._held.claiming.wait(0.02):  # another thread's claim may hang on its connection
            return False
        if unanswered:
            unanswered -= self._held.claims()
        if unanswered:  # some may have been claimed, run and settled in between
            unanswered &= held_by(self._alias, self._lease.executor)
        if unanswered:
            logger.warning("releasing %d %s whose answer was lost", len(unanswered), plural(len(unanswered), "claim"))
        for claim in unanswered:
            self._held.put_end(Settlement(claim, RunOutcome.LOST, NextState.RELEASED, keep=False))
        return True
