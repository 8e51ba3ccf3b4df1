"""What stands in for the parts of an executor that have threads or connections of their own."""

from collections import deque

from django.db import transaction

from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.running.awaited_runs import AwaitedRuns
from django_delayed_tasks.executor.running.current_run import Batch
from django_delayed_tasks.executor.settling.failure_reports import FailureReports, report_here, tell_failed
from django_delayed_tasks.executor.settling.settler import Settler
from django_delayed_tasks.states import Then
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settle import Ended, Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.fences import Claim


class ReportsHere(FailureReports):
    """Reports ends in the caller's thread."""

    def report(self, task: ClaimedTask, settlement: Settlement, then: Then) -> None:
        report_here(task, settlement, then)

    def put(self, task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
        tell_failed(task, error, exception)


class NoRelay:
    """Hands no slots on."""

    may_hand_on = True

    def hand_on(self, batch: list[Settlement]) -> Ended | None:
        """Leave the batch to the settler."""
        return None


class SettlerHere(Settler):
    """Settles in the caller's thread, with savepoints in its transaction; no error passes by waiting.

    Attributes:
        became: what has become of the claims that were settled.
    """

    def __init__(self, alias: str, held: Held, failures: FailureReports) -> None:
        super().__init__(alias, held, failures, NoRelay())
        self.became: dict[Claim, Then] = {}

    def write(self, batch: list[Settlement]) -> Ended:
        """Settle in one transaction, or as a part of the caller's."""
        with transaction.atomic(using=self._alias):
            ended = settle(self._alias, batch, Wait.FOREVER)
        self.became |= ended.became
        return ended


class AwaitedHere(AwaitedRuns):
    """Keeps the batches of async handlers until they are awaited in the caller's thread."""

    def __init__(self, options: ExecutorOptions, held: Held) -> None:
        super().__init__(options, held)
        self.batches: deque[Batch] = deque()

    def put(self, batch: Batch) -> None:
        self.batches.append(batch)
