"""Tasks whose code has no handler in this executor, as during a rolling deploy: they are released, to be run later."""

from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, released

LOOK_AGAIN = 60.0
"""Seconds for which tasks of an unknown code are not claimed."""


class UnknownCodes:
    """Remembers unknown codes, so that their tasks are not claimed again at once.

    A task that another live executor can run stays claimable. One that no live executor can run is postponed: otherwise
    such tasks would pile up where every poll reads them.
    """

    def __init__(self, rank: Peers) -> None:
        self._rank = rank
        self._unknown: dict[str, float] = {}

    def excluded(self) -> frozenset[str]:
        """Return the codes not to claim now."""
        if not self._unknown:
            return frozenset()
        now = clock.monotonic()
        self._unknown = {code: until for code, until in self._unknown.items() if until > now and find(code) is None}
        return frozenset(self._unknown)

    def screen(self, tasks: list[ClaimedTask]) -> tuple[list[ClaimedTask], list[Settlement]]:
        """Return (the tasks to run, how to release the others)."""
        known = [task for task in tasks if find(task.biz_code) is not None]
        if len(known) == len(tasks):
            return tasks, []
        return known, [self._refused(task) for task in tasks if find(task.biz_code) is None]

    def _refused(self, task: ClaimedTask) -> Settlement:
        self._unknown[task.biz_code] = clock.monotonic() + LOOK_AGAIN
        after = timedelta() if task.biz_code in self._rank.codes_elsewhere else timedelta(seconds=LOOK_AGAIN)
        return released(task, after)
