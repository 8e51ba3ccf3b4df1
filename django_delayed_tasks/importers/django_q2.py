"""Schedules of django-q2, and tasks that wait in its queue, if that is a table."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule
from django_q.utils import localtime

from django_delayed_tasks import Cron, Interval, Trigger
from django_delayed_tasks.importers import croniter
from django_delayed_tasks.importers.croniter import COMPARED
from django_delayed_tasks.importers.moving import Move, NotMoved, function_of

OPTIONS = frozenset(
    ("hook", "save", "sync", "cached", "ack_failure", "iter_count", "iter_cached", "chain", "broker", "timeout")
)
"""The keyword arguments that django-q2 takes for itself: the function does not get it."""
QUEUE = ("cluster", "broker_name")
UNNEEDED = frozenset(("group", "task_name", "save", "cached", "ack_failure"))
"""The options that only say how a result is kept, or whether a run that failed is repeated."""
MONTHS = {"M": 1, "BM": 2, "Q": 3, "Y": 12}
MAX_CAUGHT_UP = 1000
"""The most missed times that a trigger makes up for."""
MAX_REPEATS = 10_000
"""Repeats that are counted: each is computed for the time after the last one."""


class Call(NamedTuple):
    """The call that django-q2 makes of the function."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: dict[str, Any]


class Recurrence(NamedTuple):
    """The trigger of a schedule, and what is different from before."""

    trigger: Trigger
    changes: list[str]


def rows() -> list[Any]:
    """Return all schedules, and the tasks in the queue if it is a table."""
    queued = OrmQ.objects.using(Conf.ORM).order_by("pk") if Conf.ORM else ()
    return [*Schedule.objects.order_by("pk"), *queued]


def name_of(row: Any) -> str:
    """Return the row in words."""
    if isinstance(row, OrmQ):
        return f"task {row.pk} ({row.task.get('name') or row.task['id']})"
    return f"schedule {row.pk} ({row.name or row.func})"


def move_of(row: Any) -> Move:
    """Return the task that a row becomes.

    Raises:
        NotMoved: django-q2 does not run it either, or there is no equivalent.
        Exception: what django-q2 would raise, or what a trigger does.
    """
    return _move_of_queued(row) if isinstance(row, OrmQ) else _move_of_schedule(row)


def _move_of_queued(row: Any) -> Move:
    if row.lock is None or row.lock > timezone.now():
        raise NotMoved(_("a cluster is running it, or was killed while it did: it is free after %s") % row.lock)
    if "func" not in row.task:
        raise NotMoved(_("it cannot be read: %s") % row.task["id"].lstrip("*"))
    call = Call(row.task["args"], row.task["kwargs"], {name: row.task.get(name) for name in OPTIONS})
    path = row.task["func"]
    if not isinstance(path, str):
        path = f"{path.__module__}.{path.__qualname__}"
    task = function_of(path).using(queue_name=_queue(row.key), biz_num=row.task["id"])
    return Move(task, call.args, call.kwargs, _dropped(call.options))


def _move_of_schedule(row: Any) -> Move:
    if row.repeats == 0 or row.next_run is None or row.cluster == "":
        raise NotMoved(_("django-q2 does not run it: it has no repeats left, no next time, or an empty cluster"))
    if row.intended_date_kwarg:
        raise NotMoved(_("it has an intended_date_kwarg: make it a handler, whose task.when is that moment"))
    function = function_of(row.func)
    call = _call(row)
    dropped = _dropped(call.options)
    recurrence = _recurrence(row) if row.schedule_type != Schedule.ONCE and row.repeats != 1 else None
    cluster = row.cluster or next((call.options[name] for name in QUEUE if call.options.get(name)), None)
    task = function.using(
        run_after=row.next_run,
        trigger=recurrence and recurrence.trigger,
        queue_name=_queue(cluster),
        biz_num=f"{(row.name or 'schedule')[:80]}-{row.pk}",
    )
    return Move(task, call.args, call.kwargs, [*(recurrence.changes if recurrence else []), *dropped])


def _queue(cluster: str | None) -> str | None:
    """Return the queue of a cluster; None, which is that of the function, for the cluster by default."""
    return None if cluster == Conf.PREFIX else cluster


def _call(row: Any) -> Call:
    """Return how django-q2's scheduler, and then its ``async_task``, would call the function.

    Raises:
        NotMoved, ValueError, SyntaxError: its texts cannot be read.
    """
    given = _keywords(row.kwargs) if row.kwargs else {}
    args = ast.literal_eval(row.args) if row.args else ()
    options = given.pop("q_options", {})
    taken = {name: given.pop(name) for name in (*OPTIONS, "task_name") if name in given}
    hook = {"hook": row.hook} if row.hook else {}
    return Call(args if isinstance(args, tuple) else (args,), given, taken | options | hook)


def _keywords(text: str) -> dict[str, Any]:
    """Return the keyword arguments: the text is a dict, or else a call's ``name=value``.

    Raises:
        NotMoved, ValueError, SyntaxError: it is neither.
    """
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        found = _keywords_of_call(ast.parse(f"f({text})", mode="eval").body)
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise NotMoved(_("its keyword arguments cannot be read"))
    return found


def _keywords_of_call(call: ast.expr) -> dict[str | None, Any] | None:
    if not isinstance(call, ast.Call) or call.args:
        return None
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}


def _dropped(options: dict[str, Any]) -> list[str]:
    """Return a line about each option that is not kept.

    Raises:
        NotMoved: one of them would be missed.
    """
    names = {name for name, value in options.items() if value and name not in QUEUE}
    if missed := names - UNNEEDED:
        raise NotMoved(_("it has options that have no equivalent: %s") % ", ".join(sorted(missed)))
    return [_("options that are not kept: %s") % ", ".join(sorted(names))] if names else []


def _recurrence(row: Any) -> Recurrence:
    """Return when a schedule recurs.

    Raises:
        NotMoved: no trigger has the same times.
    """
    trigger: Trigger
    if row.schedule_type == Schedule.CRON:
        trigger, changes = croniter.trigger_of(row.cron, Conf.TIME_ZONE, row.next_run)
    else:
        trigger = _trigger(row)
        changes = list(_differences(row, trigger))
    catches_up = Conf.CATCH_UP and row.schedule_type != Schedule.CRON
    if catches_up:
        trigger = replace(trigger, misfire="catch_up", limit=MAX_CAUGHT_UP)
    if row.repeats > 1:
        since = row.next_run if catches_up else max(row.next_run, timezone.now())
        trigger = replace(trigger, end=_last_time(row, trigger, since))
    return Recurrence(trigger, [*changes, *_missed(row, trigger)])


def _trigger(row: Any) -> Trigger:
    kind, at = row.schedule_type, localtime(row.next_run)
    if kind in (Schedule.MINUTES, Schedule.HOURLY):
        return Interval(minutes=(row.minutes or 1) if kind == Schedule.MINUTES else 60)
    if kind == Schedule.BIWEEKLY:
        return Interval(weeks=2)
    seconds = f"{at.second} " if at.second else ""
    zone = None if Conf.TIME_ZONE == settings.TIME_ZONE else Conf.TIME_ZONE
    return Cron(f"{seconds}{at.minute} {at.hour} {_days(kind, at)}", tz=zone)


def _days(kind: str, at: datetime) -> str:
    """Return the last three fields of a cron expression."""
    if kind == Schedule.DAILY:
        return "* * *"
    if kind == Schedule.WEEKLY:
        return f"* * {at.isoweekday()}"
    months = sorted((at.month - 1 + number) % 12 + 1 for number in range(0, 12, MONTHS[kind]))
    return f"{at.day} {','.join(map(str, months))} *"


def _differences(row: Any, trigger: Trigger) -> Iterator[str]:
    """Yield a line if the clock time differs from django-q2's after a change of daylight saving time.

    Raises:
        NotMoved: the days differ.
    """
    said = False
    for theirs, ours in islice(zip(_their_times(row), trigger.times(row.next_run), strict=False), COMPARED):
        there, here = (localtime(moment).replace(microsecond=0) for moment in (theirs, ours))
        if there.date() != here.date():
            text = _("%(trigger)s has other times than django-q2: %(here)s, not %(there)s")
            raise NotMoved(text % {"trigger": trigger, "here": here, "there": there})
        if there != here and not said:
            said = True
            text = _("at changes of daylight saving time: %(here)s, before %(there)s")
            yield text % {"here": here, "there": there}


def _their_times(row: Any) -> Iterator[datetime]:
    moment = row.next_run
    while True:
        moment = row.calculate_next_run(moment)
        yield moment


def _last_time(row: Any, trigger: Trigger, since: datetime) -> datetime | None:
    """Return the time of the last run, given the number of repeats that the schedule has left.

    Raises:
        NotMoved: they are too many to count.
    """
    if row.repeats > MAX_REPEATS:
        raise NotMoved(_("it repeats more than %s times") % MAX_REPEATS)
    moment = trigger.next_after(trigger.latest_in(row.next_run, since) or row.next_run)
    for _each in range(row.repeats - 2):
        moment = moment and trigger.next_after(moment)
    return moment


def _missed(row: Any, trigger: Trigger) -> Iterator[str]:
    late = timezone.now() - row.next_run
    if trigger.misfire == "catch_up" and isinstance(trigger, Interval) and late > MAX_CAUGHT_UP * trigger.period:
        yield _("of the times that were missed, the last %s are made up for") % MAX_CAUGHT_UP
