"""Failures of tasks, for tests that ask what the settler reported."""

from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask


class Told(FailureReports):
    """Keeps the failures that are put, in order, instead of reporting them; it is not started."""

    def __init__(self) -> None:
        super().__init__("default")
        self.told: list[tuple[ClaimedTask, str]] = []

    def put(self, task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
        self.told.append((task, error))
