"""Assertions about what is scheduled."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from django_delayed_tasks import clock
from django_delayed_tasks.api import database
from django_delayed_tasks.conf import settings
from django_delayed_tasks.handlers.functions import Code, code_named
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import BizNum, TaskStatus
from django_delayed_tasks.store.acceptance import known_code
from django_delayed_tasks.store.validation import valid_identity, valid_json, valid_moment, valid_offset, valid_trigger
from django_delayed_tasks.support.durations import listed
from django_delayed_tasks.support.redaction import shown
from django_delayed_tasks.triggers import Trigger


class _AnyData:
    def __repr__(self) -> str:
        return "ANY"


ANY: Final[Any] = _AnyData()
"""Stands for any data."""


def scheduled_tasks(code: Code | None = None, num: BizNum | None = None, *, using: str | None = None) -> list[Task]:
    """Return the pending tasks, due ones first; of one code and one number, if these are given.

    Raises:
        UnknownCode: there is neither a handler for the code nor a row that has it.
    """
    tasks = Task.objects.using(database(using)).filter(status=TaskStatus.PENDING)
    if code is not None:
        tasks = tasks.filter(biz_code=known_code(database(using), code_named(code)))
    if num is not None:
        tasks = tasks.filter(biz_num=valid_identity("any", num)[1])
    return list(tasks.order_by("claim_at", "-priority", "id"))


def assert_scheduled(
    code: Code,
    num: BizNum | None = None,
    *,
    when: datetime | timedelta | None = None,
    within: timedelta | None = None,
    biz_ext: Any = ANY,
    queue: str | None = None,
    priority: int | None = None,
    trigger: Trigger | str | None = None,
    using: str | None = None,
) -> Task:
    """Assert that a task is pending, and return it.

    Args:
        num: its number; None for any.
        when: its time, an aware datetime or a timedelta from now; None for any.
        within: how far its time may be from that; by default not at all for a datetime, a second for a timedelta.
        biz_ext: its data, as JSON has it.

    Raises:
        AssertionError: there is no such task; the message says what differs.
        TypeError: ``within`` is given without ``when``.
        UnknownCode: there is neither a handler for the code nor a row that has it.
    """
    if when is None and within is not None:
        raise TypeError("within is how far the time may be from when, which is not given")
    moment = clock.host_now() + valid_offset(when, "when") if isinstance(when, timedelta) else when
    expected = {
        "when": None if moment is None else valid_moment(moment),
        "queue": queue,
        "priority": priority,
        "trigger": None if trigger is None else str(valid_trigger(str(trigger))),
    }
    tolerance = within if within is not None else timedelta(seconds=1) if isinstance(when, timedelta) else timedelta()
    tasks = scheduled_tasks(code, num, using=using)
    found = {}
    for task in tasks:
        found[task] = _differences(task, expected, tolerance, biz_ext)
        if not found[task]:
            return task
    raise AssertionError(_message(code, num, found, using))


def assert_not_scheduled(code: Code, num: BizNum | None = None, *, using: str | None = None) -> None:
    """Assert that no task of this code, and of this number if it is given, is pending.

    Raises:
        AssertionError: there is one; the message shows it.
        UnknownCode: there is neither a handler for the code nor a row that has it.
    """
    if tasks := scheduled_tasks(code, num, using=using):
        raise AssertionError(f"{_named(code, num)} is scheduled:\n  {_with_times(tasks)}")


def _differences(task: Task, expected: dict[str, Any], tolerance: timedelta, biz_ext: Any) -> list[str]:
    differences = []
    moment = expected["when"]
    if moment is not None and abs(task.when - moment) > tolerance:
        word = "later" if task.when > moment else "earlier"
        differences.append(f"when is {task.when}, {abs(task.when - moment)} {word} than {moment}")
    of_task = {"queue": task.queue, "priority": task.priority, "trigger": task.trigger_text}
    for name, value in of_task.items():
        if expected[name] is not None and value != expected[name]:
            differences.append(f"{name} is {value!r}, not {expected[name]!r}")
    if biz_ext is not ANY and _written(task.biz_ext) != _written(biz_ext):
        differences.append(f"biz_ext is {shown(task.biz_ext)}, not {shown(biz_ext)}")
    return differences


def _written(data: Any) -> str | None:
    text = valid_json(data, settings.MAX_BIZ_EXT_BYTES)
    return None if text is None else json.dumps(json.loads(text), sort_keys=True)


def _message(code: Code, num: BizNum | None, found: dict[Task, list[str]], using: str | None) -> str:
    if not found:
        others = scheduled_tasks(using=using)
        text = "; scheduled are:\n  " + _with_times(others) if others else "; nothing is"
        return f"{_named(code, num)} is not scheduled{text}"
    lines = [f"{task}: {'; '.join(differences)}" for task, differences in found.items()]
    return f"{_named(code, num)} is scheduled otherwise:\n  " + listed(lines, "\n  ")


def _named(code: Code, num: BizNum | None) -> str:
    return code_named(code) if num is None else f"{code_named(code)} {num}"


def _with_times(tasks: Iterable[Task]) -> str:
    return listed([f"{task} at {task.when}" for task in tasks], "\n  ")
