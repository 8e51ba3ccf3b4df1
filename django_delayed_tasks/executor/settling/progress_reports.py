"""Writes the progress that runs report, in a thread and on a connection of its own."""

from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.store.claiming.claimed_task import lose, put_back, take_report
from django_delayed_tasks.store.records.progress import write_progress

REPORT_EVERY = 1.0
"""Seconds between two writes for one task."""


class ProgressReports:
    """Writes the progress reports of the tasks that are held; :meth:`write` is one iteration."""

    def __init__(self, alias: str, held: Held) -> None:
        self._alias = alias
        self._held = held

    def write(self) -> float:
        """Write the latest report of each run that made one; return the seconds until the next write."""
        tasks = {task.claim: task for task in self._held.tasks()}
        reports = {claim: report for claim, task in tasks.items() if (report := take_report(task))}
        if reports:
            try:
                waiting, lost = write_progress(self._alias, reports)
            except BaseException:
                for claim, report in reports.items():
                    put_back(tasks[claim], report)
                raise
            for claim in waiting:
                put_back(tasks[claim], reports[claim])
            for claim in lost:
                lose(tasks[claim])
        return REPORT_EVERY
