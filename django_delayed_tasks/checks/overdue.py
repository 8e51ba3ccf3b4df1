"""A check for tasks that are overdue because no executor serves their queue."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.core.checks import CheckMessage, Warning
from django.utils.translation import gettext as _

from django_delayed_tasks.support.durations import duration_text

_is_starting: ContextVar[bool] = ContextVar("is_starting", default=False)


@contextmanager
def by_an_executor() -> Iterator[None]:
    """Leave this check out in the block: an executor that is about to start runs the system checks."""
    token = _is_starting.set(True)
    try:
        yield
    finally:
        _is_starting.reset(token)


def is_by_an_executor() -> bool:
    """Return whether an executor that is about to start runs the checks."""
    return _is_starting.get()


def overdue_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield W018 for each queue whose tasks have been due for more than a minute without an executor that serves it."""
    # Imported here: an executor begins sooner without the statistics.
    from django_delayed_tasks.stats.backlogs import queues_of
    from django_delayed_tasks.stats.findings import VERY_LATE, tasks_text
    from django_delayed_tasks.stats.snapshot import take_snapshot

    for queue in queues_of(take_snapshot(alias)):
        if queue.latency > VERY_LATE and not queue.served_by and not queue.paused_at:
            text = _(
                "In the database %(alias)r, no live executor serves the queue %(queue)r: %(tasks)s due, "
                "the first for %(time)s."
            )
            values = {"tasks": tasks_text(queue.due), "time": duration_text(queue.latency)}
            yield Warning(
                text % {"alias": alias, "queue": queue.name, **values},
                hint=_("Start one, `manage.py starttask`, or let one serve this queue: --queues, --exclude-queues."),
                id="django_delayed_tasks.W018",
            )
