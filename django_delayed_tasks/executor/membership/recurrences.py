"""Declares the recurring tasks of this process's handlers, and keeps them confirmed."""

from datetime import timedelta

from django.conf import settings as project

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import TaskHandler, get_task_handlers
from django_delayed_tasks.store.schedules import declare, zones
from django_delayed_tasks.store.sql.lanes import lane_of
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

CONFIRM_EVERY = 60.0
"""Seconds between two confirmations."""
RETIRE_AFTER = timedelta(seconds=10 * CONFIRM_EVERY)
"""The time for which a recurring task is unconfirmed before it is retired: all executors may be restarting at once."""


class Recurrences:
    """The recurring tasks of this process's handlers: declared at the start, confirmed from time to time."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._since = self._confirmed_at = clock.monotonic()

    def declare(self) -> None:
        """Create or update the tasks of all handlers with a trigger; retire those of handlers without one."""
        handlers = get_task_handlers()
        self._follow_zone(is_start=True)
        recurring = [declaration_of(code, handler) for code, handler in handlers.items() if handler.recurs_by]
        declare.declare(self._alias, recurring)
        declare.retire(self._alias, _without_trigger())

    def _follow_zone(self, *, is_start: bool) -> None:
        zone = project.TIME_ZONE
        if moved := zones.follow(self._alias, zone, get_task_handlers(), is_start=is_start):
            logger.info("TIME_ZONE is %s now: %d recurring %s moved", zone, moved, plural(moved, "task"))

    def confirm(self) -> bool:
        """Confirm the recurring tasks, recreate missing and failed ones, and retire those unconfirmed for too long."""
        self._follow_zone(is_start=False)
        recurring = [
            declaration_of(code, handler) for code, handler in get_task_handlers().items() if _has_next_run(handler)
        ]
        again = declare.confirm(self._alias, recurring)
        declare.declare(self._alias, [declared for declared in recurring if declared.biz_code in again])
        now, before = clock.monotonic(), self._confirmed_at
        self._confirmed_at = now
        # The database was away, so other executors could not confirm theirs either: count from the start again.
        if now - before > 3 * CONFIRM_EVERY:
            self._since = now
        if now - self._since > RETIRE_AFTER.total_seconds():
            declare.retire(self._alias, unconfirmed_for=RETIRE_AFTER)
            # Those that an executor with older code has declared again after this process started.
            declare.retire(self._alias, _without_trigger(), unconfirmed_for=RETIRE_AFTER)
        return False


def _without_trigger() -> list[str]:
    return [code for code, handler in get_task_handlers().items() if not handler.recurs_by]


def _has_next_run(handler: TaskHandler) -> bool:
    trigger = handler.recurs_by
    return trigger is not None and trigger.next_after(clock.host_now()) is not None


def declaration_of(code: str, handler: TaskHandler) -> declare.DeclaredTask:
    """Return the recurring task of a handler that has a trigger."""
    lane = lane_of(code, handler)
    return declare.DeclaredTask(code, str(handler.recurs_by), handler.queue, handler.priority, lane)
