"""Turns what callers pass into a ``Schedule``: validates it, and fills in the defaults of its handler."""

import sys
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from django_delayed_tasks import clock
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidTask, UnknownCode
from django_delayed_tasks.handlers import TaskHandler, find, get_task_handlers, load_problems
from django_delayed_tasks.models import Success, Task, TaskRun
from django_delayed_tasks.store.sql.lanes import lane_of
from django_delayed_tasks.store.validation import (
    Schedule,
    When,
    absolute,
    valid_fragment,
    valid_identity,
    valid_json,
    valid_new_identity,
    valid_new_queue,
    valid_once,
    valid_priority,
    valid_trigger,
    valid_when,
)
from django_delayed_tasks.support.durations import MAX_LISTED, listed
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)


def accepted(task: Any, once: bool = False) -> Schedule:
    """Return the task as it will be written, with its handler's queue and priority where the task has none.

    Raises:
        InvalidTask, UnknownCode: the task is not accepted.
    """
    if not isinstance(task, Task):
        raise InvalidTask("task", task, "must be a Task")
    if isinstance(task.pk, str):
        raise InvalidTask("task", task, "has values without names: write Task(biz_code=..., biz_num=...)")
    code, num = valid_new_identity(task.biz_code, task.biz_num)
    handler = find(code)
    if handler is None and not settings.ALLOW_UNKNOWN_CODES:
        raise unknown(code)
    defaults = handler or TaskHandler
    trigger = valid_trigger(task.trigger_text)
    schedule = Schedule(
        code,
        num,
        valid_when(task.when),
        valid_json(task.biz_ext, settings.MAX_BIZ_EXT_BYTES),
        valid_new_queue(task.queue or defaults.queue),
        valid_priority(defaults.priority if task.priority is None else task.priority),
        None if trigger is None else str(trigger),
        valid_when(task.expires_at, "expires_at"),
        valid_once(once, trigger),
        lane=lane_of(code, handler),
        trace=trace_of_caller(),
    )
    refuse_expired(schedule, "expires_at")
    return schedule


def refuse_expired(schedule: Schedule, field: str) -> None:
    """Refuse a schedule that cannot start, whatever the time is; warn of one that has expired by the clock of the host.

    Raises:
        InvalidTask: the schedule expires before its time; ``field`` is what the caller calls ``expires_at``.
    """
    expires, when = schedule.expires_at, schedule.when
    if expires is None:
        return
    refuse_never(when, expires, field)
    now = clock.host_now()
    if absolute(expires, now) < max(now, absolute(when, now)):
        text = "%s %s expires at %s, which is in the past or before its time: it will not be started"
        logger.warning(text, schedule.biz_code, schedule.biz_num, expires)


def refuse_never(when: When, expires: When, field: str) -> None:
    """Refuse a time at which a task expires if it could not start, whatever the time is now.

    Raises:
        InvalidTask: of this field.
    """
    if isinstance(expires, timedelta) and expires < timedelta():
        raise InvalidTask(field, expires, "is in the past: the task could never start")
    if None not in (when, expires) and type(when) is type(expires) and expires < when:  # type: ignore[operator]
        raise InvalidTask(field, expires, f"is before the task's time, {when}: it could never start")


def known_identity(alias: str, biz_code: Any, biz_num: Any) -> tuple[str, str]:
    """Return both halves of an identity whose code this process or the database knows.

    Raises:
        InvalidTask, UnknownCode: the values are not a valid identity, or the code is not known.
    """
    code, num = valid_identity(biz_code, biz_num)
    return known_code(alias, code), num


def known_code(alias: str, biz_code: Any) -> str:
    """Return a code that has a handler here, or rows: tasks, history and successes stay when a handler is removed.

    Only a code without a handler costs a query.

    Raises:
        InvalidTask, UnknownCode: the value is not a text, or it is no such code.
    """
    code = valid_fragment("biz_code", biz_code)
    if find(code) is None and not settings.ALLOW_UNKNOWN_CODES and not _has_rows(alias, code):
        raise unknown(code)
    return code


def _has_rows(alias: str, code: str) -> bool:
    return any(model._default_manager.using(alias).filter(biz_code=code).exists() for model in (Task, TaskRun, Success))


def unknown(code: str) -> UnknownCode:
    """Return the error for a code that no handler here has: it names the closest code that one has, or a few.

    It also says which modules, in which the handler may be, could not be loaded, and why.
    """
    codes = sorted(get_task_handlers())
    if close := get_close_matches(code, codes, n=1):
        known = f"; did you mean {close[0]!r}?"
    else:
        known = f" (known: {listed(codes) or 'none'})"
    broken = "".join(f"; {one.source} could not be loaded: {one.why}" for one in load_problems()[:MAX_LISTED])
    hint = "handlers are found in the task_handlers modules of INSTALLED_APPS and in TASK_HANDLERS"
    return UnknownCode("biz_code", code, f"no handler is registered for it{known}{broken}; {hint}")


def trace_of_caller() -> str | None:
    """Return the context of the current span; None without one, or if the process does not use OpenTelemetry.

    A span that is not sampled cannot be found later, so it counts as none. A task is accepted without its trace if that
    cannot be read: while another thread imports OpenTelemetry, its modules are incomplete.
    """
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    try:
        context = api.get_current_span().get_span_context()
        if not (context.is_valid and context.trace_flags & 1):
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"
    except Exception:
        logger.debug("the trace of the caller cannot be read", exc_info=True)
        return None
