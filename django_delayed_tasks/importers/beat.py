"""The entries of Celery's beat, in the tables of django-celery-beat and in an app's ``beat_schedule``, as recurrences.

What a crontab means is asked of Celery itself: of the sets of minutes, hours and days that it has made of the texts.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

from django.apps import apps
from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.translation import gettext as _

from django_delayed_tasks import Cron, Interval, Trigger
from django_delayed_tasks.importers.moving import NotMoved

COLUMNS = ("priority", "exchange", "routing_key", "headers")
"""The columns of an entry that have no equivalent."""
FIELDS = {"minute": (0, 59), "hour": (0, 23), "day_of_month": (1, 31), "month_of_year": (1, 12), "day_of_week": (0, 6)}


class Recurrence(NamedTuple):
    """When a copied entry runs: its trigger, and its first time if that is not the trigger's next one."""

    trigger: Trigger
    first: datetime | None


@dataclass(frozen=True)
class Entry:
    """An entry of either origin.

    ``last_run_at`` may be the moment of the entry's last change, if it never ran, as for beat. ``lost`` names what it
    has and a task has not. ``deadline``: how long after its time beat still sends what it missed; None: however long.
    """

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    schedule: Any
    queue: str | None = None
    expires: datetime | None = None
    expire_seconds: float | None = None
    start_time: datetime | None = None
    last_run_at: datetime | None = None
    has_run: bool = False
    lost: tuple[str, ...] = ()
    deadline: timedelta | None = None
    row: Any = None


def entries(path: str | None) -> Iterator[tuple[str, Callable[[], Entry]]]:
    """Yield the name of each entry, by name, and what reads it; those in tables before those of the app at ``path``.

    Beat's own database scheduler copies the latter into the tables, under the same names: they are not taken twice.

    Raises:
        CommandError: there is neither.
    """
    is_installed = apps.is_installed("django_celery_beat")
    app = _app(path) if find_spec("celery") else None
    if app is None and not is_installed:
        raise CommandError(_("django_celery_beat is not in INSTALLED_APPS"))
    configured: Mapping[str, Any] = app.conf.beat_schedule if app else {}
    if not configured and not is_installed:
        raise CommandError(_("no entries were found: name the Celery app that has a beat_schedule with --app"))
    model: Any = apps.get_app_config("django_celery_beat").get_model("PeriodicTask") if is_installed else None
    rows = {row.name: row for row in model._default_manager.order_by("name")} if model else {}
    seconds = app.conf.beat_cron_starting_deadline if app else None
    deadline = None if seconds is None else timedelta(seconds=seconds)
    routers = _routers(app, path) if app else []
    for name, row in rows.items():
        yield name, partial(routed, partial(of_row, row, deadline), routers)
    for name in sorted({*configured} - {*rows}):
        yield name, partial(routed, partial(of_configuration, configured[name], app), routers)


def _app(path: str | None) -> Any:
    """Return the Celery app at a path such as ``celery -A`` takes; else the current one, or one of the settings."""
    from celery import current_app
    from celery.app.utils import find_app

    if path:
        return find_app(path)
    if current_app.conf.beat_schedule:
        return current_app
    of_settings = _app_of_settings()
    return of_settings if of_settings.conf.beat_schedule else current_app


def _app_of_settings() -> Any:
    from celery import Celery

    app = Celery("importbeat", set_as_current=False)
    app.config_from_object(settings, namespace="CELERY")
    return app


def _routers(app: Any, path: str | None) -> list[Any]:
    """Return the routers of ``task_routes`` in their order; those of the settings if the app, not named, has none."""
    from celery.app.routes import prepare

    return list(prepare(app.conf.task_routes or (None if path else _app_of_settings().conf.task_routes)))


def routed(read: Callable[[], Entry], routers: Sequence[Any]) -> Entry:
    """Return the entry, with the queue of the first route for its task if it names none itself, as when beat sends it.

    A mapping of names and patterns can be asked. Other routers decide for each message, and are not followed.
    """
    entry = read()
    if entry.queue:
        return entry
    for router in routers:
        if type(router).__name__ != "MapRoute":
            name = getattr(router, "__qualname__", type(router).__qualname__)
            return replace(entry, lost=(*entry.lost, _("the queue that the router %s chooses") % name))
        if route := router(entry.task):
            queue = route.pop("queue", None)
            return replace(entry, queue=getattr(queue, "name", queue), lost=(*entry.lost, *sorted(route)))
    return entry


def of_row(row: Any, deadline: timedelta | None = None) -> Entry:
    """Return the entry in a row of django-celery-beat.

    Raises:
        NotMoved: it is disabled, or of a kind that has no trigger.
        ValueError: its arguments are no JSON, or its crontab means nothing to Celery.
    """
    if not row.enabled:
        raise NotMoved(_("it is disabled"))
    if row.one_off or row.clocked:
        raise NotMoved(_("it runs only once: enqueue it with run_after"))
    if row.solar:
        raise NotMoved(_follows_the_sun())
    lost = [name for name in COLUMNS if getattr(row, name) not in (None, "", "{}")]
    return Entry(
        row.task, *_arguments(json.loads(row.args or "[]"), json.loads(row.kwargs or "{}")), row.schedule, row.queue,
        row.expires, None if row.expires else row.expire_seconds, row.start_time, row.last_run_at or row.date_changed,
        row.last_run_at is not None, tuple(lost), deadline, row,
    )  # fmt: skip


def of_configuration(given: Mapping[str, Any], app: Any) -> Entry:
    """Return the entry in a ``beat_schedule``, whose last run is not known: beat keeps it in a file of its own.

    Raises:
        NotMoved: its times are rounded.
    """
    from celery.schedules import maybe_schedule

    if given.get("relative"):
        raise NotMoved(_("its times are rounded (relative): write them as a crontab"))
    options = dict(given.get("options") or {})
    queue, expires = options.pop("queue", None), options.pop("expires", None)
    moment = expires if isinstance(expires, datetime) else None
    lost = tuple(sorted(options))
    return Entry(
        given["task"], *_arguments(given.get("args") or (), given.get("kwargs") or {}),
        maybe_schedule(given["schedule"], app=app), getattr(queue, "name", queue), moment,
        None if moment else expires, lost=lost,
    )  # fmt: skip


def _arguments(args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    if not isinstance(args, list | tuple) or not isinstance(kwargs, Mapping):
        raise NotMoved(_("its arguments are not a list and an object"))
    return list(args), dict(kwargs)


def recurrence_of(entry: Entry) -> Recurrence:
    """Return when an entry runs, and when first: as soon as it is copied, if beat would send it at its next start.

    Raises:
        NotMoved: it has expired, or will have at its next time, or is of a kind that has no trigger.
        InvalidTrigger: it has a value that means nothing here.
    """
    now = timezone.now()
    begin = max(now, entry.start_time or now)
    last = entry.last_run_at or now
    if entry.start_time and not entry.has_run:
        last = min(last, now) - timedelta(days=365 * 30)  # as beat does, so that it is due when it starts
    trigger = _trigger(entry)
    following = trigger.next_after(last)
    if following and following <= begin and not _is_too_late(entry, trigger, begin):
        first: datetime | None = begin
    elif isinstance(trigger, Interval):
        first = following if entry.last_run_at else None
    else:
        first = None
    next_time = first or trigger.next_after(begin)
    if next_time is None or (entry.expires and next_time > entry.expires):
        raise NotMoved(_("it does not run after %s, when it expires") % entry.expires)
    if isinstance(trigger, Cron):
        trigger = replace(trigger, start=entry.start_time)
    return Recurrence(replace(trigger, end=entry.expires), first)


def _is_too_late(entry: Entry, trigger: Trigger, begin: datetime) -> bool:
    if entry.deadline is None or isinstance(trigger, Interval):
        return False
    return trigger.latest_in(begin - entry.deadline, begin) is None


def _trigger(entry: Entry) -> Trigger:
    schedule = entry.schedule
    kind = type(schedule).__name__
    if kind == "schedule" and not getattr(schedule, "relative", False):
        return Interval(seconds=schedule.run_every.total_seconds(), grace=entry.expire_seconds or None)
    if kind == "crontab" and schedule.nowfun:
        raise NotMoved(_("it has a clock of its own (nowfun): write its times in the zone of that clock"))
    if kind in ("crontab", "TzAwareCrontab"):
        return Cron(expression_of(schedule), tz=str(schedule.tz), grace=entry.expire_seconds or None)
    if kind == "solar":
        raise NotMoved(_follows_the_sun())
    raise NotMoved(_("its schedule is a %s, whose times only Celery knows") % kind)


def _follows_the_sun() -> str:
    return _("it follows the sun: let the function enqueue itself for the next time, with run_after")


def expression_of(crontab: Any) -> str:
    """Return the cron expression for a crontab of Celery.

    Raises:
        NotMoved: it restricts both fields of days, in a way that cron has no words for: Celery wants days that suit
            both, cron those that suit either.
    """
    fields = {name: _field(getattr(crontab, name), *ends) for name, ends in FIELDS.items()}
    for name in ("minute", "hour"):  # a star follows elapsed time, a list the clock on the wall
        if fields[name].startswith("*/") and not str(getattr(crontab, f"_orig_{name}")).startswith("*"):
            fields[name] = _ranges(getattr(crontab, name))
    if not any(fields[name].startswith("*") for name in ("day_of_month", "day_of_week")):
        fields |= {"day_of_month": "*", "day_of_week": _nth(crontab.day_of_month, crontab.day_of_week)}
    return " ".join(fields.values())


def _field(values: set[int], low: int, high: int) -> str:
    """Return a field with these values; with a star if it can have one: then the other field of days counts, too."""
    for step in range(1, high):
        stepped = range(low, high + 1, step)
        if len(stepped) > 1 and set(stepped) == set(values):
            return "*" if step == 1 else f"*/{step}"
    return _ranges(values)


def _ranges(values: set[int]) -> str:
    starts = sorted(value for value in values if value - 1 not in values)
    ends = sorted(value for value in values if value + 1 not in values)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _nth(days: set[int], weekdays: set[int]) -> str:
    """Return "1#2" for the days from 8 to 14 and Mondays: the second Monday of a month; and the like."""
    weeks = [range(first, min(first + 7, 32)) for first in range(1, 32, 7)]
    chosen = [number for number, week in enumerate(weeks, 1) if set(week) <= set(days)]
    if {day for number in chosen for day in weeks[number - 1]} != set(days):
        raise NotMoved(
            _(
                "it restricts the day of the month and the day of the week: Celery runs on days that suit both, cron on"
                " days that suit either. Write one of the two, and let the function return on other days"
            )
        )
    return ",".join(f"{weekday}#{number}" for weekday in sorted(weekdays) for number in chosen)
