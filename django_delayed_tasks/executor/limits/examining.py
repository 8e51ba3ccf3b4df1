"""Examines tasks that were read, before any permit is taken: some end without a run, the others have a key."""

from datetime import datetime

from django_delayed_tasks.executor.limits.lane import Lane
from django_delayed_tasks.executor.running.deciding import raised
from django_delayed_tasks.executor.running.run import failed, refusal
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimable_at
from django_delayed_tasks.store.limits.places import Found
from django_delayed_tasks.store.settling.settlement import Settlement


def examined(
    lane: Lane, found: Found, now: datetime, max_rescues: int
) -> tuple[dict[ClaimedTask, Settlement], dict[ClaimedTask, str]]:
    """Return the tasks that end without a run, and the keys of the others, in the order in which to start them."""
    ends: dict[ClaimedTask, Settlement] = {}
    keys: dict[ClaimedTask, str] = {}
    tasks = [task for some in found.values() for task in some]
    for task in sorted(tasks, key=lambda task: (-task.priority, claimable_at(task), task.id)):
        if late := refusal(task, lane.handler, now):
            ends[task] = late
            continue
        try:
            keys[task] = lane.permits.key_of(task)
        except BaseException as error:  # SystemExit in a handler must not end the executor's thread
            ends[task] = failed(task, lane.handler, raised(error), now, now, max_rescues)
    return ends, keys
