"""The guides for coming from other packages, followed with these packages."""

import ast

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
import time

from celery import Celery
from celery.contrib.testing.worker import start_worker

app = Celery("mysite", broker="memory://", backend="cache+memory://")
app.set_default()

import shop.celery_tasks
from django_delayed_tasks import Task


def forward():
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="error"):
        app.send_task("shop.tasks.cancel_unpaid_order", args=["A-1"], countdown=0.5)
        deadline = time.monotonic() + 60
        while not Task.objects.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    print(Task.objects.get().biz_ext["args"])
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
add("H", args="'five times'", repeats=5)
"""
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
    assert "['A-1']" in newcomer.types("from bridge import forward; forward()")
    assert "Order A-1 was not paid: cancelled." in newcomer.run("python manage.py starttask --drain")


def test_from_celery_beat(newcomer: Newcomer) -> None:
    newcomer.has_a_project('INSTALLED_APPS += ["shop", "django_celery_beat"]\n')
    newcomer.append("entries.py", BEAT)
    newcomer.run("python manage.py migrate --verbosity 0")
    newcomer.types("import entries")
    newcomer.follows(HOW_TO / "migrate-from-celery-beat.md")

    shown = newcomer.saw("--dry-run")
    assert "at night: Cron('30 3 * * mon-fri', tz='Europe/Berlin', end=" in shown
    assert "every six hours: Interval(hours=6, grace=120)" in shown
    assert "friday 13th: left out: it restricts the day of the month and the day of the week" in shown
    assert "too often: left out: " in shown
    assert "with the sun: left out: it is neither a crontab nor an interval entry" in shown
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
    assert "left out, since it repeats only 5 times" in newcomer.saw("from shop.move")
    assert "Report for once, full: False." in newcomer.saw("starttask")
    assert ast.literal_eval(newcomer.types(TRIGGERS)) == {
        "minutes": "Interval(minutes=20)",
        "daily": "Cron('30 9 * * *')",
        "weekly": "Cron('30 9 * * 7')",
        "quarterly": "Cron('30 9 15 3,6,9,12 *')",
        "yearly": "Cron('30 9 15 3 *')",
        "cron": "Cron('0 3 * * 1')",
    }


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
