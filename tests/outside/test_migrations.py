"""The guides for coming from other packages, followed with these packages."""

import ast
import json
from uuid import UUID

from tests.newcomer import Newcomer
from tests.pages import ROOT

HOW_TO = ROOT / "docs/how-to"
TASKS = "from django_delayed_tasks import Task; "
OLD_BACKEND = """
INSTALLED_APPS += ["shop", "django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": []}}
"""
OLD_FUNCTION = """
from django.tasks import task

@task
def greet(name, greeting="Hello"):
    print(f"{greeting}, {name}!")
"""
OLD_BACKGROUND = """
from background_task import background

@background(schedule=60)
def notify_user(user, greeting="Hello"):
    print("the old function")
"""
CELERY = """
import json
import logging
import time
import uuid
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path

from celery import Celery, chain, signature
from celery.contrib.testing.worker import start_worker

folder = Path("messages")
folder.mkdir()
folders = dict.fromkeys(["data_folder_in", "data_folder_out", "control_folder"], str(folder))
app = Celery("mysite", broker="filesystem://", backend="cache+memory://")
app.set_default()
app.conf.update(task_serializer="pickle", accept_content=["json", "pickle"])
app.conf.broker_transport_options = {**folders, "polling_interval": 0.02}

import shop.celery_tasks
from django_delayed_tasks import Task

NAME = "shop.tasks.cancel_unpaid_order"
MOMENT = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
VALUES = [
    "A-1", 7, 1.5, None, [1, "2"], {"a": MOMENT.date()}, uuid.UUID(int=7), MOMENT, MOMENT.date(), clock_time(7, 8),
    Decimal("1.10"), b"text",
]
KEPT = [b"\\xff", {1, 2}, {1: "key"}, "NUL \\0", float("nan"), 2**70, timedelta(days=1)]


said = []


class Said(logging.Handler):
    def emit(self, record):
        said.extend(["kept"] if "is kept in the broker" in record.getMessage() else [])


logger = logging.getLogger("django_delayed_tasks.celery")
logger.addHandler(Said())
logger.setLevel(logging.WARNING)  # the worker sets the root's to its own


def send(value, **options):
    return app.send_task(NAME, args=[value], **options)


def forward():
    options = [{}, {"countdown": 0.2}, {"eta": datetime.now(UTC)}, {"expires": 3600}, {"priority": 3}]
    step = signature(NAME, args=["next"], immutable=True)
    # All before the worker starts: Kombu's transport may take a message from the folder before it is written.
    for number, value in enumerate(VALUES):
        send(value, serializer="json", **options[number % len(options)])
    for value in KEPT:
        send(value)
    chain(signature(NAME, args=["first"]), step).apply_async()
    send("called back", link=step)
    send("errs back", link_error=step)
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="critical"):
        deadline = time.monotonic() + 60
        while len(said) + Task.objects.count() < len(KEPT) + 3 + len(VALUES):
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
    found = [task.biz_ext["args"][0] for task in Task.objects.all()]
    expiring = Task.objects.exclude(expires_at=None).count()
    print(json.dumps([sorted(found, key=str), expiring, len(list(folder.glob("*.celery.msg")))]))
"""
BEAT = """
import json
from datetime import timedelta

from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask, SolarSchedule

hours = IntervalSchedule.objects.create(every=6, period="hours")
moments = IntervalSchedule.objects.create(every=5, period="microseconds")
night = CrontabSchedule.objects.create(minute="30", hour="3", day_of_week="mon-fri", timezone="Europe/Berlin")
both = CrontabSchedule.objects.create(minute="0", hour="0", day_of_month="13", day_of_week="5")
sunrise = SolarSchedule.objects.create(event="sunrise", latitude=52, longitude=13)


def entry(name, task="shop.tasks.send_report", **fields):
    PeriodicTask.objects.create(name=name, task=task, args=json.dumps(["north"]), **fields)


entry("at night", crontab=night, kwargs=json.dumps({"full": True}), expires=timezone.now() + timedelta(days=900))
entry("every six hours", interval=hours, expire_seconds=120, last_run_at=timezone.now() - timedelta(hours=5))
entry("friday 13th", crontab=both)
entry("too often", interval=moments)
entry("with the sun", solar=sunrise)
entry("off", interval=hours, enabled=False)
entry("once", interval=hours, one_off=True)
long_ago = timezone.now() - timedelta(days=9)
entry("dead", interval=hours, last_run_at=long_ago, expires=long_ago + timedelta(days=1))
entry("not there", "shop.tasks.gone", interval=hours)
entry("not a task", "json.dumps", interval=hours)
"""
Q2_SETTINGS = """
INSTALLED_APPS += ["shop", "django_q"]
Q_CLUSTER = {"orm": "default", "timeout": 60, "retry": 90}
"""
Q2 = """
from datetime import datetime, timedelta, timezone

from django_q.models import Schedule
from django_q.tasks import async_task

past = datetime(2026, 1, 31, 9, 30, tzinfo=timezone.utc)
later = datetime(2099, 3, 15, 9, 30, tzinfo=timezone.utc)


def add(kind, next_run=later, **fields):
    Schedule.objects.create(func="shop.tasks.send_report", schedule_type=kind, next_run=next_run, **fields)


add("O", past, args="'once'")
add("I", args="'minutes', True", minutes=20)
add("D", args="'daily'", kwargs="full=True")
add("W", args="'weekly'")
add("Q", args="'quarterly'")
add("Y", args="'yearly'")
add("C", args="'cron'", cron="0 3 * * 1")
add("H", args="'never'", repeats=0)
async_task("shop.tasks.send_report", "queued", full=True)
"""
KEPT_MESSAGES = 7 + 3
TRIGGERS = TASKS + (
    "print({task.biz_ext['args'][0]: str(task.trigger) for task in Task.objects.order_by('pk') if task.trigger})"
)


def test_from_django_tasks_db(newcomer: Newcomer) -> None:
    newcomer.has_a_project(OLD_BACKEND)
    newcomer.append("shop/tasks.py", OLD_FUNCTION)
    newcomer.run("python manage.py migrate --verbosity 0")
    newcomer.types(
        "from shop.tasks import greet; from datetime import timedelta; from django.utils import timezone; "
        "greet.enqueue('now'); "
        "greet.using(priority=7, run_after=timezone.now() + timedelta(days=1)).enqueue('later', greeting='Bye')"
    )
    newcomer.follows(HOW_TO / "migrate-from-django-tasks-db.md")
    assert "Hello, now!" in newcomer.saw("starttask")
    left = newcomer.types(
        TASKS + "from django.utils import timezone; task = Task.objects.get(); "
        "print(task.biz_ext['args'], task.biz_ext['kwargs'], task.priority, task.when > timezone.now())"
    )
    assert left.strip() == "['later'] {'greeting': 'Bye'} 7 True"
    gone = newcomer.types("from django_tasks_db.models import DBTaskResult; print(DBTaskResult.objects.count())")
    assert gone.strip() == "0"


def test_from_background_tasks(newcomer: Newcomer) -> None:
    newcomer.has_a_project('INSTALLED_APPS += ["shop", "background_task"]\n')
    newcomer.append("shop/tasks.py", OLD_BACKGROUND)
    newcomer.run("python manage.py migrate --verbosity 0")
    newcomer.types(
        "from shop.tasks import notify_user; from django.utils.timezone import now; "
        "notify_user('now', schedule=now()); "
        "notify_user('often', greeting='Bye', schedule=now(), repeat=3600); notify_user('later', schedule=7200)"
    )
    newcomer.follows(HOW_TO / "migrate-from-background-tasks.md")
    assert "Hello, now!" in newcomer.saw("starttask")
    assert "Bye, often!" in newcomer.saw("starttask")
    assert newcomer.types(TRIGGERS).strip() == "{'often': 'Interval(hours=1)'}"
    count = newcomer.types("from background_task.models import Task as Old; print(Old.objects.count())")
    assert count.strip() == "0"
    waiting = newcomer.types(TASKS + "print(sorted(task.biz_ext['args'][0] for task in Task.objects.all()))")
    assert waiting.strip() == "['later', 'often']"


def test_from_celery(newcomer: Newcomer) -> None:
    newcomer.has_a_project('INSTALLED_APPS += ["shop"]\n')
    newcomer.follows(HOW_TO / "migrate-from-celery.md")
    newcomer.append("bridge.py", CELERY)
    printed = newcomer.types("from bridge import forward; forward()")
    found, expiring, left = json.loads(printed.splitlines()[-1])
    text = ["A-1", "1.10", "07:08:00", "2026-03-04", "2026-03-04T05:06:00+00:00", "text", str(UUID(int=7))]
    plain = [7, 1.5, None, [1, "2"], {"a": "2026-03-04"}]
    assert found == sorted([*text, *plain], key=str)
    assert (expiring, left) == (2, KEPT_MESSAGES)
    assert "Order A-1 was not paid: cancelled." in newcomer.run("python manage.py starttask --drain")


def test_from_celery_beat(newcomer: Newcomer) -> None:
    newcomer.has_a_project('INSTALLED_APPS += ["shop", "django_celery_beat"]\n')
    newcomer.append("entries.py", BEAT)
    newcomer.run("python manage.py migrate --verbosity 0")
    newcomer.types("import entries")
    newcomer.follows(HOW_TO / "migrate-from-celery-beat.md")

    shown = newcomer.saw("--dry-run")
    assert "at night: Cron('30 3 * * 1-5', tz='Europe/Berlin', end=" in shown
    assert "every six hours: Interval(hours=6, grace=120)" in shown
    assert "friday 13th: left out: it restricts the day of the month and the day of the week" in shown
    assert "too often: left out: " in shown
    assert "with the sun: left out: it follows the sun" in shown
    assert "off: left out: it is disabled" in shown
    assert "once: left out: it runs only once" in shown
    assert "not there: left out: shop.tasks.gone cannot be imported" in shown
    assert "not a task: left out: json.dumps cannot be imported: json.dumps is no function decorated" in shown
    assert "celery.backend_cleanup: left out" in shown or "2 entries would be copied, 8 left out." in shown
    assert "dead: left out: it does not run after " in shown
    assert "2 entries copied, 8 left out." in newcomer.saw("--disable")

    rows = newcomer.types(
        TASKS + "from django.utils import timezone; "
        "print([(task.biz_num, task.biz_ext['args'], task.biz_ext['kwargs'], "
        "(task.when - timezone.now()).total_seconds() < 3601) for task in Task.objects.order_by('biz_num')])"
    )
    assert "('at night', ['north'], {'full': True}, " in rows
    assert "('every six hours', ['north'], {}, True)" in rows
    left = newcomer.types(
        "from django_celery_beat.models import PeriodicTask; "
        "print(sorted(PeriodicTask.objects.filter(enabled=True).values_list('name', flat=True)))"
    )
    assert "at night" not in left
    assert "friday 13th" in left
    assert "0 entries copied" in newcomer.run("python manage.py importbeat")


def test_from_django_q2(newcomer: Newcomer) -> None:
    newcomer.has_a_project(
        'INSTALLED_APPS += ["shop", "django_q"]\nQ_CLUSTER = {"orm": "default", "timeout": 60, "retry": 90}\n'
    )
    newcomer.append("entries.py", Q2)
    newcomer.run("python manage.py migrate --verbosity 0")
    newcomer.types("import entries")
    newcomer.follows(HOW_TO / "migrate-from-django-q2.md")
    assert "Report for once, full: False." in newcomer.saw("starttask")
    assert "Report for queued, full: True." in newcomer.saw("starttask")
    assert "8 would be moved, 1 left." in newcomer.saw("--dry-run")
    assert "8 moved, 1 left." in newcomer.outputs["python manage.py importtasks django-q2"]
    assert ast.literal_eval(newcomer.types(TRIGGERS)) == {
        "minutes": "Interval(minutes=20, misfire='catch_up', limit=1000)",
        "daily": "Cron('30 9 * * *', misfire='catch_up', limit=1000)",
        "weekly": "Cron('30 9 * * 7', misfire='catch_up', limit=1000)",
        "quarterly": "Cron('30 9 15 3,6,9,12 *', misfire='catch_up', limit=1000)",
        "yearly": "Cron('30 9 15 3 *', misfire='catch_up', limit=1000)",
        "cron": "Cron('0 3 * * 1')",
    }
    assert "0 moved, 1 left." in newcomer.run("python manage.py importtasks django-q2")


def test_from_a_cron_table(newcomer: Newcomer) -> None:
    newcomer.has_a_project('INSTALLED_APPS += ["shop"]\n')
    newcomer.follows(HOW_TO / "migrate-from-cron.md")
    rows = newcomer.types(TASKS + "print(sorted(Task.objects.values_list('biz_code', 'biz_num', 'status')))")
    assert rows.strip() == "[('clear-sessions', 'recurring', 0), ('read-feed', 'recurring', 0)]"
    ran = newcomer.types(
        "from django_delayed_tasks import get_runs; "
        "print(list(get_runs('clear-sessions').values_list('outcome', flat=True)))"
    )
    assert ran.strip() == "[0]"
