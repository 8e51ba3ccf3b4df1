"""Runs, for tests: of single tasks, and with names for what the function returns."""

from typing import NamedTuple

from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running import run as running
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement


class RunEnd(NamedTuple):
    """The settlements yet to be written, and the tasks to be run one by one."""

    left: list[Settlement]
    alone: Batch


def run(tasks: Batch, handler: TaskHandler, clock: DatabaseClock) -> RunEnd:
    """Call the handler once for all of them."""
    return RunEnd(*running.run(tasks, handler, clock))


def run_one(task: ClaimedTask, handler: TaskHandler, clock: DatabaseClock) -> Settlement | None:
    """Run one task; the settlement yet to be written, None if the run has written it."""
    end = run([task], handler, clock)
    assert not end.alone
    return end.left[0] if end.left else None
