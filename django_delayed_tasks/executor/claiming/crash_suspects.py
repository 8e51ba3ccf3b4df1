"""Tasks that were there when executors died, more than once: one of them may be what kills its process.

Two of them never run in one process at a time, so that the one which kills does not take the same bystanders down with
it until their rescues are used up. While one runs no other is even claimed: it would be there for a moment.
"""

from collections.abc import Container
from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement, released
from django_delayed_tasks.store.sql.fences import Claim

SUSPECT = 2
"""Rescues that make a task one, or fewer where fewer are allowed. After the first everything goes on at once: mostly it
was the machine.
"""
PAUSE = timedelta(seconds=0.5)
PATIENCE = 10.0
"""Seconds after which a suspect that still runs counts no more: what kills does so soon, what hangs must not block."""


class CrashSuspects:
    """Lets them into this process one after the other."""

    def __init__(self, max_rescues: int) -> None:
        self._rescues = max(1, min(SUSPECT, max_rescues))
        self._last: ClaimedTask | None = None
        self._since = float("-inf")

    def claimable_below(self, held: Container[Claim]) -> int | None:
        """Tasks with as many rescues must not be claimed beside what this process holds; None: all may be."""
        if self._last is None or self._last.claim not in held:
            return None
        return self._rescues if clock.monotonic() - self._since < PATIENCE else None

    def set_apart(self, claimed: list[ClaimedTask]) -> tuple[list[ClaimedTask], list[Settlement]]:
        """(those to run, how to release the rest), of what was claimed together.

        Those that are given back come again one after the other.
        """
        suspects = [task for task in claimed if task.rescues >= self._rescues]
        if suspects:
            self._last, self._since = suspects.pop(0), clock.monotonic()
        apart = {task.claim for task in suspects}
        back = [released(task, PAUSE * number) for number, task in enumerate(suspects, 1)]
        return [task for task in claimed if task.claim not in apart], back
