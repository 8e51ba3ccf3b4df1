"""How long the admin's pages and a preview take: ``pages ROUNDS HOURS``, on the tasks and runs that are there.

This program writes the statistics that executors would write in HOURS hours, and takes the survey as an executor does.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import django
from django.core.management import call_command

ALIAS = "default"
CODES, MINUTES = 40, 60
PAGES = {
    "overview": "overview/",
    "overview, day": "overview/?span=day&ahead=day",
    "overview, week": "overview/?span=week&ahead=month",
    "overview as JSON": "overview/overview.json",
    "banner": "overview/problems/",
    "tasks": "task/",
    "tasks, pending": "task/?status__exact=0",
    "tasks, overdue": "task/?due=overdue",
    "tasks of a code": "task/?code=c7",
    "tasks, search": "task/?q=w49999",
    "tasks that failed, by error": "task/errors/",
    "runs": "taskrun/",
    "runs, failed": "taskrun/?outcome=3",
    "runs of the last hour": "taskrun/?finished_within=hour",
    "executors": "executor/",
    "queues": "pausedqueue/",
    "resources": "resource/",
}
PREVIEW = "preview of a hundred runs"
"""What is measured next to the pages: ``preview``, which ``manage.py tasks next --until`` shows."""


def fill(hours: int) -> None:
    """Statistics of many codes, and some executors."""
    from django_delayed_tasks.models import Executor, Overview, Statistic
    from django_delayed_tasks.store.records import rollup
    from django_delayed_tasks.store.schedules.recurrence import read_now

    for model in (Statistic, Overview, Executor):
        model._base_manager.all().delete()
    now = read_now(ALIAS)
    moments = [now - timedelta(hours=number) for number in range(1, hours)]
    moments += [now - timedelta(minutes=number) for number in range(MINUTES)]
    for moment in moments:
        rollup.add(ALIAS, counts(), moment)
    for number in range(20):
        Executor.objects.create(
            name=f"web{number}", host=f"host{number}", pid=number, threads=8, started_at=now, heartbeat_at=now,
            expires_at=now + timedelta(hours=9), alive=True, codes=[f"c{code}" for code in range(100)],
        )  # fmt: skip


def counts() -> dict[tuple[str, int, str], Any]:
    """Some runs of each code that were done, and some that failed."""
    from django_delayed_tasks.store.records.rollup import Cell

    found = {}
    for code in range(CODES):
        for outcome, error in ((0, ""), (3, "shop.Declined")):
            cell = found[f"c{code}", outcome, error] = Cell()
            late, took = ([timedelta(seconds=random.expovariate(1)) for _ in range(5)] for _ in range(2))
            cell.count(5, late, took)
    return found


def survey() -> float:
    """Survey all tasks at once; return the seconds that it took."""
    from django_delayed_tasks.executor.membership.surveyor import take_survey

    begun = time.monotonic()
    take_survey(ALIAS)
    return time.monotonic() - begun


def timed(rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each page, and of a preview; what the first of each takes does not count."""
    from django.contrib.auth.models import User
    from django.test import Client

    from django_delayed_tasks import preview

    user = User.objects.filter(username="boss").first() or User.objects.create_superuser("boss")
    client = Client()
    client.force_login(user)
    pages = {name: partial(get, client, f"/admin/django_delayed_tasks/{address}") for name, address in PAGES.items()}
    calls = pages | {PREVIEW: partial(preview, timedelta(days=30))}
    return {name: median(call, rounds) for name, call in calls.items()}


def get(client: Any, address: str) -> None:
    """Ask for one page."""
    response = client.get(address)
    if response.status_code != 200:
        raise RuntimeError(f"{address}: {response.status_code}")


def median(call: Callable[[], Any], rounds: int) -> float:
    """Return the median milliseconds of one call."""
    took = []
    for _ in range(rounds + 1):
        begun = time.monotonic()
        call()
        took.append(1000 * (time.monotonic() - begun))
    return statistics.median(took[1:])


if __name__ == "__main__":
    django.setup()
    call_command("migrate", verbosity=0)
    random.seed(1)
    rounds, hours = map(int, sys.argv[1:])
    fill(hours)
    print(json.dumps({"survey": survey(), "pages": timed(rounds)}))
