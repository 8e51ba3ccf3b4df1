"""Crash suspects: tasks that were rescued from dead executors more than once, one of which may crash its process.

Two suspects never run in one process at the same time. Otherwise the one that crashes would take the same innocent
tasks down with it until their rescues are used up. While a suspect runs, the executor does not even claim another one.
"""

from collections.abc import Container
from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, released
from django_delayed_tasks.store.sql.fences import Claim

SUSPECT = 2
"""Rescues after which a task is a suspect, or ``max_rescues`` if that is fewer. A first rescue has no consequences: in
most cases the machine was the cause.
"""
PAUSE = timedelta(seconds=0.5)
"""How long after one released suspect the next becomes claimable again."""
PATIENCE = 10.0
"""Seconds after which a suspect that still runs is cleared: a crash comes early, and a hanging run must not block."""


class CrashSuspects:
    """Lets crash suspects into this process one after the other."""

    def __init__(self, max_rescues: int) -> None:
        self._rescues = max(1, min(SUSPECT, max_rescues))
        self._last: ClaimedTask | None = None
        self._since = float("-inf")

    def claimable_below(self, held: Container[Claim]) -> int | None:
        """Return the number of rescues from which on a task must not be claimed now; None if all tasks may be."""
        if self._last is None or self._last.claim not in held:
            return None
        return self._rescues if clock.monotonic() - self._since < PATIENCE else None

    def set_apart(self, claimed: list[ClaimedTask]) -> tuple[list[ClaimedTask], list[Settlement]]:
        """Return (the tasks to run, how to release the others) of tasks that were claimed together.

        Those that are released become claimable again one after the other.
        """
        suspects = [task for task in claimed if task.rescues >= self._rescues]
        if suspects:
            self._last, self._since = suspects.pop(0), clock.monotonic()
        apart = {task.claim for task in suspects}
        back = [released(task, PAUSE * number) for number, task in enumerate(suspects, 1)]
        return [task for task in claimed if task.claim not in apart], back
