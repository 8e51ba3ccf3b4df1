"""Writes what runs report of their progress, in a thread and on a connection of its own."""

from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.store import write_progress
from django_delayed_tasks.store.claims import lose, take_report

REPORT_EVERY = 1.0
"""Seconds between two writes for one task."""


class Reports:
    """:meth:`write` is one iteration."""

    def __init__(self, alias: str, inflight: InFlight) -> None:
        self._alias = alias
        self._inflight = inflight

    def write(self) -> float:
        """Write the latest report of each run that made one; seconds until the next time."""
        tasks = {task.claim: task for task in self._inflight.tasks()}
        reports = {claim: report for claim, task in tasks.items() if (report := take_report(task))}
        if reports:
            held = write_progress(self._alias, reports)
            for claim in reports.keys() - held:
                lose(tasks[claim])
        return REPORT_EVERY
