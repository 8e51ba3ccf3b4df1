"""An executor without threads, for measuring: its poller's claims are timed, and settled at once."""

import time
from statistics import quantiles

from django_delayed_tasks import clock
from django_delayed_tasks.executor.claiming.agenda_reader import FullScans
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.states import NextState, RunOutcome
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.looks import KnownLevels, look
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from harness.database_pages import pages_of


class Claimer:
    """Claims batches of ``size`` as the product does, and finishes them without running anything."""

    def __init__(self, size: int) -> None:
        options = ExecutorOptions(name="claimer", threads=size, batch_size=size, lease=3600.0, heartbeat=60.0)
        self._executor = Executor(options)  # its threads are not started
        self._executor.lease.acquire()

    def claim(self) -> tuple[int, float]:
        """Return the number of claimed tasks, which are settled afterwards, and the seconds that claiming them took."""
        executor = self._executor
        began = time.perf_counter()
        executor.poller.poll()
        took = time.perf_counter() - began
        claimed = executor.queue.take_back()
        executor.held.end([task.claim for task in claimed], ())
        settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE, keep=False) for task in claimed])
        executor.held.remove([task.claim for task in claimed])
        return len(claimed), took

    def pages(self) -> int:
        """Return the pages that the next agenda (not a full scan) and a claim that finds nothing read."""
        known = self._remembered()
        claim = strategy_for("default", "auto")
        request = ClaimRequest(
            self._executor.lease.executor, "default", 0, 20, watermark=known.since if known else None
        )
        agenda = pages_of(lambda: look("default", known) if known else read_agenda("default"))
        return agenda + pages_of(lambda: claim("default", request))

    def _remembered(self) -> KnownLevels | None:
        """Return what a reading starts from that is not to be a full scan, although full scans are quick."""
        reader = self._executor.poller.reader
        before, reader.scans = reader.scans, FullScans()
        for took in (0.0, 10.0, 10.0):
            reader.scans.note(clock.monotonic(), took)
        try:
            return reader._known(is_idle=False)
        finally:
            reader.scans = before

    def end(self) -> None:
        """Give the lease back."""
        self._executor.lease.end()


def p99(seconds: list[float]) -> float:
    """Return the 99th percentile."""
    return quantiles(seconds, n=100, method="inclusive")[98]
