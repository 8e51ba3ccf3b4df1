"""Tasks that were there when executors died, more than once: one of them may be what kills its process.

Two of them never run in one process at a time, so that the one which kills does not take the same bystanders down with
it until their rescues are used up.
"""

from collections.abc import Iterable
from datetime import timedelta

from django_delayed_tasks.executor.screening import released
from django_delayed_tasks.store import ClaimedTask, Settlement

SUSPECT = 2
"""Rescues that make a task one. After the first everything goes on at once: mostly it was the machine."""
PAUSE = timedelta(seconds=0.5)


def set_apart(claimed: list[ClaimedTask], others: Iterable[ClaimedTask]) -> tuple[list[ClaimedTask], list[Settlement]]:
    """(those to run beside the ``others`` that this process holds, how to release the rest).

    Those that are given back come again one after the other.
    """
    suspects = [task for task in claimed if task.rescues >= SUSPECT]
    if not suspects:
        return claimed, []
    if not any(task.rescues >= SUSPECT for task in others):
        suspects.pop(0)
    apart = {task.claim for task in suspects}
    back = [released(task, PAUSE * number) for number, task in enumerate(suspects, 1)]
    return [task for task in claimed if task.claim not in apart], back
