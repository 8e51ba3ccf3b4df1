"""Writes what runs report of their progress, in a thread and on a connection of its own."""

from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.store import write_progress

REPORT_EVERY = 1.0
"""Seconds between two writes for one task."""


class Reports:
    """:meth:`write` is one iteration."""

    def __init__(self, alias: str, inflight: InFlight) -> None:
        self._alias = alias
        self._inflight = inflight

    def write(self) -> float:
        """Write the latest report of each run that made one; seconds until the next time."""
        tasks = {task.claim: task for task in self._inflight.tasks() if task.has_report}
        if tasks:
            reports = {claim: task.take_report() for claim, task in tasks.items()}
            held = write_progress(self._alias, reports)
            for claim in tasks.keys() - held:
                tasks[claim].lose()
        return REPORT_EVERY
