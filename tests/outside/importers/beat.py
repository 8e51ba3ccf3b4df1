"""What ``importbeat`` makes of entries of the real beat; a program for an interpreter that has Celery."""

import random
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import takewhile
from typing import Any

import django
from django.conf import settings

TASK = "tests.outside.beat_functions.report"
BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
END = datetime(2029, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTES = [
    "*", "0", "7", "59", "*/15", "*/7", "*/60", "0,30", "10-20", "50-10", "10-40/7", "45-15/10", "1,13,30-45,50-59/2",
]  # fmt: skip
HOURS = ["*", "0", "7", "*/3", "*/5", "8-17", "22-5", "23-6", "8-17/2", "20-8/3", "0,8-17/2", "0-23", "5,7,9"]
DAYS = ["*", "1", "13", "31", "*/2", "*/3", "1-31", "1-7", "8-14", "2-30/2", "25-5", "1-7,15-21", "L", "29-31", "0"]
MONTHS = ["*", "1", "*/3", "2-12/2", "11-2", "jan", "January", "oct-feb", "1,7", "0-12", "2", "13"]
WEEKDAYS = [
    "*", "0", "1", "6", "7", "*/2", "mon", "monday", "Monday", "mon-fri", "monday-saturday", "sat-sun", "fri-mon",
    "sunday,wednesday", "0-6", "1-5/2", "sun-sat", "5-1", "thu,fri-sun/2", "funday",
]  # fmt: skip


def crontabs(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Yield fields of crontabs: each form of each field once, and combinations by chance."""
    forms = {
        "minute": MINUTES, "hour": HOURS, "day_of_month": DAYS, "month_of_year": MONTHS, "day_of_week": WEEKDAYS,
    }  # fmt: skip
    usual = {"minute": "30", "hour": "3", "day_of_month": "*", "month_of_year": "*", "day_of_week": "*"}
    for name, values in forms.items():
        yield from (usual | {name: value} for value in values)
    chance = random.Random(seed)
    for _ in range(count):
        yield {name: chance.choice(values) for name, values in forms.items()}


def compare_times() -> None:
    """Compare the times of each crontab over two years with those of Celery's own sets, and its next ones."""
    from django_celery_beat.models import CrontabSchedule

    from django_delayed_tasks import Cron
    from django_delayed_tasks.importers.beat import expression_of
    from django_delayed_tasks.importers.moving import NotMoved

    compared = left = refused = 0
    for fields in crontabs(45, 80):
        try:
            crontab: Any = CrontabSchedule(**fields, timezone="UTC").schedule
        except ValueError:  # beat cannot use it either
            refused += 1
            continue
        try:
            expression = expression_of(crontab)
        except NotMoved:
            assert len(crontab.day_of_month) < 31, fields
            assert len(crontab.day_of_week) < 7, fields
            left += 1
            continue
        minute, hour, *days = expression.split()
        found = {at.date() for at in until(END, Cron(f"0 0 {' '.join(days)}", tz="UTC"), BEGIN - SECOND)}
        assert found == {at.date() for at in every_day() if suits(crontab, at)}, (fields, expression)
        clock = Cron(f"{minute} {hour} * * *", tz="UTC")
        times = {(at.hour, at.minute) for at in until(BEGIN + timedelta(days=1), clock, BEGIN - SECOND)}
        assert times == {(hour, minute) for hour in crontab.hour for minute in crontab.minute}, (fields, expression)
        last, trigger = BEGIN + timedelta(minutes=random.Random(compared).randrange(10**6)), Cron(expression, tz="UTC")
        for _ in range(5):
            start, delta, _now = crontab.remaining_delta(last)
            assert trigger.next_after(last) == start + delta, (fields, expression, last)
            last = start + delta
        compared += 1
    assert compared > 80, compared
    print(f"{compared} compared, {left} left out, {refused} refused by Celery")


def every_day() -> Iterator[datetime]:
    """Yield the beginning of each day of the two years."""
    return (BEGIN + timedelta(days=number) for number in range((END - BEGIN).days))


def suits(crontab: Any, day: datetime) -> bool:
    """Return whether the crontab has this day."""
    return (
        day.day in crontab.day_of_month
        and day.month in crontab.month_of_year
        and day.isoweekday() % 7 in crontab.day_of_week
    )


def until(end: datetime, trigger: Any, after: datetime) -> Iterator[datetime]:
    """Yield the times of a trigger before the end."""
    return takewhile(lambda at: at < end, trigger.times(after))


def compare_is_due() -> None:
    """Compare minute by minute for some days, with ``is_due`` itself."""
    from django_celery_beat.models import CrontabSchedule

    from django_delayed_tasks import Cron
    from django_delayed_tasks.importers.beat import expression_of

    for fields in ({"minute": "50-10/5", "hour": "22-5"}, {"minute": "0", "hour": "7", "day_of_week": "sat-sun"}):
        crontab: Any = CrontabSchedule(**fields, timezone="Asia/Shanghai").schedule
        now = last = datetime(2027, 1, 1, 0, 0, tzinfo=UTC)
        trigger, due = Cron(expression_of(crontab), tz=str(crontab.tz)), []
        crontab.nowfun = lambda: now  # noqa: B023 (the present one)
        for _ in range(3 * 1440):
            now += timedelta(minutes=1)
            if crontab.is_due(last).is_due:
                due.append(now)
                last = now
        assert due == trigger.preview(len(due), BEGIN), fields
        assert due, fields


def import_rows() -> None:
    """Import rows of the tables: what they become, what is said, and that a missed run is run once."""
    from django.utils import timezone
    from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
    from django_celery_beat.schedulers import ModelEntry

    from django_delayed_tasks import Task

    now = timezone.now()
    hourly = IntervalSchedule.objects.create(every=1, period="hours")
    nightly = CrontabSchedule.objects.create(minute="0", hour="3", day_of_week="monday-saturday", timezone="Asia/Tokyo")

    def row(name: str, **fields: Any) -> Any:
        last = fields.pop("last_run_at", None)
        made = PeriodicTask.objects.create(name=name, task=fields.pop("task", TASK), **fields)
        PeriodicTask.objects.filter(pk=made.pk).update(last_run_at=last)
        return PeriodicTask.objects.get(pk=made.pk)

    missed = row("missed", crontab=nightly, last_run_at=now - timedelta(days=3), args='["a"]', kwargs='{"b": true}')
    starts = row("starts", crontab=nightly, start_time=now + timedelta(days=40))
    row("kept", interval=hourly, last_run_at=now - timedelta(minutes=30), priority=5, headers='{"x": 1}')
    row("often", interval=hourly, last_run_at=now - timedelta(days=3))
    row("no json", interval=hourly, args="[")
    row("no list", interval=hourly, args="{}")
    row("no queue", interval=hourly, queue="unknown")
    row("plain", interval=hourly, task="tests.outside.beat_functions.plain")
    assert [ModelEntry(one).is_due().is_due for one in (missed, starts)] == [True, False]
    said = imported()
    assert "missed: Cron('0 3 * * 1-6', tz='Asia/Tokyo')\n" in said, said
    assert "kept: Interval(hours=1), without priority, headers\n" in said, said
    assert "no json: left out: " in said, said
    assert "no list: left out: its arguments are not a list" in said, said
    assert "no queue: left out: " in said, said
    assert "4 entries copied, 4 left out." in said, said
    first = dict(Task.objects.values_list("biz_num", "when"))
    assert now <= first["missed"] <= timezone.now()
    assert now <= first["often"] <= timezone.now()
    assert first["starts"] == starts.start_time
    assert abs(first["kept"] - now - timedelta(minutes=30)) < SECOND
    data = Task.objects.get(biz_num="missed").biz_ext
    assert (data["args"], data["kwargs"]) == (["a"], {"b": True})
    assert imported() == said
    assert dict(Task.objects.values_list("biz_num", "when")) == first, "a repeated import runs what was missed again"
    assert "4 entries copied" in imported("--disable")
    assert "missed: left out: it is disabled" in imported()


def import_configuration() -> None:
    """Import a ``beat_schedule`` from the settings, and from an app."""
    from celery import Celery
    from celery.schedules import crontab, schedule

    from django_delayed_tasks import Task

    entries = {
        "of settings": {"task": TASK, "schedule": crontab(minute=0, hour="22-5", day_of_week="sat-sun")},
        "trap": {"task": TASK, "schedule": crontab(hour=11)},
        "seconds": {"task": TASK, "schedule": 30.0, "args": ("a",), "options": {"expires": 15.0, "priority": 3}},
        "timedelta": {"task": TASK, "schedule": timedelta(hours=2), "options": {"queue": "default"}},
        "rounded": {"task": TASK, "schedule": timedelta(hours=2), "relative": True},
        "own": {"task": TASK, "schedule": type("Lunar", (schedule,), {})(5)},
        "missed": {"task": TASK, "schedule": 5},
        "broken": {"schedule": 5},
    }
    settings.CELERY_BEAT_SCHEDULE, settings.CELERY_TIMEZONE = entries, "Europe/Berlin"
    said = imported("--dry-run")
    assert "of settings: Cron('0 0-5,22-23 * * 0,6', tz='Europe/Berlin')\n" in said, said
    assert "trap: Cron('* 11 * * *', tz='Europe/Berlin')\n" in said, said
    assert "seconds: Interval(seconds=30, grace=15), without priority\n" in said, said
    assert "timedelta: Interval(hours=2)\n" in said, said
    assert "rounded: left out: its times are rounded (relative)" in said, said
    assert "own: left out: its schedule is a Lunar" in said, said
    assert "missed: left out: it is disabled" in said, said  # the row in the table counts
    assert "broken: left out: " in said, said
    assert not Task.objects.filter(biz_num="seconds").exists()
    app = Celery("shop", set_as_current=True)
    app.conf.timezone = "Asia/Shanghai"
    app.conf.beat_schedule = {"of the app": {"task": TASK, "schedule": crontab(minute=5, hour=3)}}
    assert "of the app: Cron('5 3 * * *', tz='Asia/Shanghai')" in imported()
    assert Task.objects.filter(biz_num="of the app").exists()


def import_routes() -> None:
    """Import entries whose queue is that of ``task_routes``: a mapping, a list of pairs, and what is not followed."""
    from celery import Celery
    from celery.schedules import crontab

    def imported_with(routes: Any, **options: Any) -> str:
        app = Celery("routes", set_as_current=True)
        entry = {"task": TASK, "schedule": crontab(minute=5, hour=3), "options": options}
        app.conf.beat_schedule, app.conf.task_routes = {"routed": entry}, routes
        return next(line for line in imported().splitlines() if line.startswith("routed"))

    copied = "routed: Cron('5 3 * * *', tz='UTC')"
    unknown = "routed: left out: "  # a queue that QUEUES lacks, so that it shows
    pairs = [("tests.outside.no.*", {"queue": "no"}), ("tests.outside.*", {"queue": "default", "priority": 3})]
    assert imported_with(None) == copied
    assert imported_with({"another": {"queue": "unknown"}}) == copied
    assert imported_with({TASK: {"queue": "unknown"}}).startswith(unknown)
    assert imported_with({"tests.*": "unknown"}).startswith(unknown)
    assert imported_with({"tests.*": {"queue": "unknown"}}, queue="default") == copied, "the entry's own queue counts"
    assert imported_with((pairs,)) == f"{copied}, without priority"
    assert imported_with([lambda *_, **__: {"queue": "unknown"}]).startswith(
        f"{copied}, without the queue that the rou"
    )
    settings.CELERY_TASK_ROUTES = {TASK: {"queue": "unknown"}}
    assert imported_with(None).startswith(unknown)


def imported(*arguments: str) -> str:
    """Call the command; return what it wrote."""
    from django.core.management import call_command

    out = StringIO()
    call_command("importbeat", *arguments, stdout=out)
    return out.getvalue()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    settings.configure(
        SECRET_KEY="x", USE_TZ=True, TIME_ZONE="UTC", DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=["django_celery_beat", "django_delayed_tasks", "django_delayed_tasks.importers"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        DELAYED_TASKS={"FUNCTION_MODULES": ["tests.outside"]},
        TASKS={
            "default": {"BACKEND": "django_delayed_tasks.backends.tasks.DelayedTasksBackend", "QUEUES": ["default"]}
        },
    )  # fmt: skip
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    for part in (compare_times, compare_is_due, import_rows, import_configuration, import_routes):
        part()
