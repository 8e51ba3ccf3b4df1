"""Replacements for the parts of an executor that have threads or connections of their own."""

from collections import deque

from django.db import transaction

from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.awaited_runs import AwaitedRuns
from django_delayed_tasks.executor.settling.failure_reports import FailureReports, report_here, tell_failed
from django_delayed_tasks.executor.settling.settler import HandsOn, Settler
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settle import SettleResult, Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim


class ReportsHere(FailureReports):
    """Reports ends in the caller's thread."""

    def report(self, task: ClaimedTask, settlement: Settlement, then: NextState) -> None:
        report_here(task, settlement, then)

    def put(self, task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
        tell_failed(task, error, exception)


class SettlerHere(Settler):
    """Settles in the caller's thread, with savepoints in its transaction; it hands no slots on.

    Attributes:
        became: what has become of the claims that were settled.
    """

    def __init__(self, alias: str, held: Held, failures: FailureReports, relay: HandsOn) -> None:
        super().__init__(alias, held, failures, relay)
        self.became: dict[Claim, NextState] = {}

    def write(self, batch: list[Settlement]) -> SettleResult:
        """Settle in one transaction, or as a part of the caller's."""
        with transaction.atomic(using=self._alias):
            ended = settle(self._alias, batch, Wait.FOREVER)
        self.became |= ended.became
        return ended


class AwaitedHere(AwaitedRuns):
    """Keeps the batches of async handlers until they are awaited in the caller's thread."""

    def __init__(self, options: ExecutorOptions, capacity: Capacity) -> None:
        super().__init__(options, capacity)
        self.batches: deque[Batch] = deque()

    def put(self, batch: Batch) -> None:
        self.batches.append(batch)


class ExecutorHere(Executor):
    """An executor whose loops the caller turns, in one thread."""

    awaited: AwaitedHere
    settler: SettlerHere

    def __init__(self, options: ExecutorOptions, lease: Lease) -> None:
        super().__init__(options, lease=lease, failures=ReportsHere, awaited=AwaitedHere, settler=SettlerHere)
