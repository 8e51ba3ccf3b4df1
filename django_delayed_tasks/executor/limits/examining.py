"""Examines tasks that were read, before any permit is taken: some end without a run, the others have a key."""

from datetime import datetime

from django_delayed_tasks.executor.limits.lane import Lane
from django_delayed_tasks.executor.running.deciding import raised, rescue_settlement
from django_delayed_tasks.executor.running.run import failed, refusal
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, claimable_at
from django_delayed_tasks.store.limits.claiming import Found
from django_delayed_tasks.store.settling.settlement import Settlement


def split_expired(
    lane: Lane, found: Found, now: datetime, max_rescues: int
) -> tuple[dict[ClaimedTask, Settlement], dict[ClaimedTask, str]]:
    """Return the tasks that end without a run, and the keys of the others, in the order in which to start them."""
    ends: dict[ClaimedTask, Settlement] = {}
    keys: dict[ClaimedTask, str] = {}
    tasks = [task for some in found.values() for task in some]
    for task in sorted(tasks, key=lambda task: (-task.priority, claimable_at(task), task.id)):
        end_or_key = _examined(lane, task, now, max_rescues)
        if isinstance(end_or_key, Settlement):
            ends[task] = end_or_key
        else:
            keys[task] = end_or_key
    return ends, keys


def _examined(lane: Lane, task: ClaimedTask, now: datetime, max_rescues: int) -> Settlement | str:
    # Whatever a project's code raises, SystemExit too: the executor's thread, and the tasks of other codes, continue.
    try:
        if late := refusal(task, lane.handler, now):
            return late
        try:
            return lane.permits.key_of(task)
        except BaseException as error:
            return failed(task, lane.handler, raised(error), now, now, max_rescues)
    except BaseException as error:  # by an attribute of the handler
        return rescue_settlement(task, raised(error), now, max_rescues)
