"""What follows the commit of added tasks: executors are woken, and receivers of ``task_added`` are told."""

from collections.abc import Callable, Iterable

from django.db import connections, transaction

from django_delayed_tasks import signals
from django_delayed_tasks.handlers import find
from django_delayed_tasks.outcomes import AddResult
from django_delayed_tasks.states import AddAction
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.validation import Schedule

_UNWRITTEN = (AddAction.KEPT, AddAction.FILTERED)


def when_committed(alias: str, schedules: Iterable[Schedule], result: AddResult | None = None) -> None:
    """Wake executors and send ``task_added`` once the caller's transaction is committed."""
    wakeup.when_committed(alias, lambda: wakeup.soon(schedules))
    if not signals.task_added.receivers or (result and result.action in _UNWRITTEN):
        return
    if wakeup.sees_commit(connections[alias]):
        for schedule in schedules:
            transaction.on_commit(_telling(alias, schedule, result), using=alias, robust=True)


def _telling(alias: str, schedule: Schedule, result: AddResult | None) -> Callable[[], None]:
    def tell() -> None:
        signals.task_added.send_robust(
            sender=type(find(schedule.biz_code)), biz_code=schedule.biz_code, biz_num=schedule.biz_num,
            when=schedule.when, queue=schedule.queue, using=alias, result=result,
        )  # fmt: skip

    return tell
