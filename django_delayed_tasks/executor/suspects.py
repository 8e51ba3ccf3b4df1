"""Tasks that were there when executors died, more than once: one of them may be what kills its process.

Two of them never run in one process at a time, so that the one which kills does not take the same bystanders down with
it until their rescues are used up.
"""

from collections.abc import Container
from datetime import timedelta

from django_delayed_tasks import clock
from django_delayed_tasks.executor.screening import released
from django_delayed_tasks.store import ClaimedTask, Settlement
from django_delayed_tasks.store.fences import Claim

SUSPECT = 2
"""Rescues that make a task one. After the first everything goes on at once: mostly it was the machine."""
PAUSE = timedelta(seconds=0.5)


PATIENCE = 10.0
"""Seconds after which a suspect that still runs counts no more: what kills does so soon, what hangs must not block."""


class Suspects:
    """Lets them into this process one after the other."""

    def __init__(self) -> None:
        self._last: ClaimedTask | None = None
        self._since = float("-inf")

    def set_apart(
        self, claimed: list[ClaimedTask], held: Container[Claim]
    ) -> tuple[list[ClaimedTask], list[Settlement]]:
        """(those to run beside what this process holds, how to release the rest).

        Those that are given back come again one after the other.
        """
        suspects = [task for task in claimed if task.rescues >= SUSPECT]
        if suspects and not self._is_one_about(held):
            self._last, self._since = suspects.pop(0), clock.monotonic()
        apart = {task.claim for task in suspects}
        back = [released(task, PAUSE * number) for number, task in enumerate(suspects, 1)]
        return [task for task in claimed if task.claim not in apart], back

    def _is_one_about(self, held: Container[Claim]) -> bool:
        is_held = self._last is not None and self._last.claim in held
        return is_held and clock.monotonic() - self._since < PATIENCE
