"""Runs of single tasks, for tests."""

from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.running.run import run
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement


def run_one(task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock) -> Settlement | None:
    """Run one task; the settlement yet to be written, None if the run has written it."""
    end = run([task], handler, clock)
    assert not end.alone
    return end.left[0] if end.left else None
