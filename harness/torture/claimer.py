"""An executor without threads, for measuring: its poller's claims are timed, and settled at once."""

import time
from collections.abc import Iterable
from statistics import quantiles

from django_delayed_tasks.executor.claiming.unknown_codes import UnknownCodes

from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.claiming.poller import Poller
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.states import RunOutcome, Then
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from harness.database_pages import pages_of


class Claimer:
    """Claims batches of ``size`` as the product does, and finishes them without running anything."""

    def __init__(self, size: int) -> None:
        options = ExecutorOptions(name="claimer", threads=size, batch_size=size, lease=3600.0, heartbeat=60.0)
        self._lease = Lease(options)
        self._lease.acquire()
        self._inflight = Held()
        self._claimed: list[ClaimedTask] = []
        rank = Peers()
        self._poller = Poller(
            options,
            self._lease,
            self._inflight,
            UnknownCodes(rank),
            rank,
            DatabaseClock(),
            self._claimed.extend,
            self._settle,
        )

    def claim(self) -> tuple[int, float]:
        """(how many were claimed, the seconds that took); they are settled afterwards."""
        began = time.perf_counter()
        self._poller.poll()
        took = time.perf_counter() - began
        claimed = list(self._claimed)
        self._claimed.clear()
        self._settle(Settlement(one.claim, RunOutcome.DONE, Then.GONE, keep=False) for one in claimed)
        return len(claimed), took

    def pages(self) -> int:
        """What the next reading of the agenda needs, when a sweep is not due, and a claim that finds nothing."""
        known = self._poller._memory.recall()
        claim = strategy_for("default", "auto")
        request = ClaimRequest(self._lease.executor, "default", 0, 20, floor=known.since if known else None)
        return pages_of(lambda: read_agenda("default", known)) + pages_of(lambda: claim("default", request))

    def _settle(self, settlements: Iterable[Settlement]) -> None:
        chosen = list(settlements)
        self._inflight.finish(settlement.claim for settlement in chosen)
        settle("default", chosen)
        self._inflight.remove(settlement.claim for settlement in chosen)

    def end(self) -> None:
        """Give the lease back."""
        self._lease.end()


def p99(seconds: list[float]) -> float:
    """What 99 of 100 are quicker than."""
    return quantiles(seconds, n=100, method="inclusive")[98]
