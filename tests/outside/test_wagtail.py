"""A stock Wagtail site whose tasks run on this store; and one whose pages are published by tasks, as the guide says."""

import json
import shutil
from pathlib import Path

import pytest

from harness.servers.downloads import one_at_a_time
from tests.newcomer import Newcomer
from tests.pages import ROOT

GUIDE = ROOT / "docs/how-to/publish-with-wagtail.md"

SETTINGS = """
INSTALLED_APPS += ["django_delayed_tasks"]
TASKS = {"default": {"BACKEND": "django_delayed_tasks.backends.tasks.DelayedTasksBackend"}}
"""
ONE_AT_A_TIME = """
TASKS["default"]["OPTIONS"] = {
    "functions": {"modelsearch.tasks.insert_or_update_object_task": {"max_concurrent": 1}}
}
"""
STEPS = """
from django_delayed_tasks.models import Task, TaskRun
from home.models import HomePage


def publish(title):
    home = HomePage.objects.get(depth=2)
    page = home.add_child(instance=HomePage(title=title, slug=title))
    page.save_revision().publish()


def found(word):
    return [page.title for page in HomePage.objects.search(word)]


def forget():
    Task._base_manager.all().delete()
    TaskRun.objects.all().delete()


def outcomes():
    return set(TaskRun.objects.values_list("outcome", flat=True))
"""

SCHEDULING = """
import json
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from home.models import HomePage


def in_seconds(seconds):
    return timezone.now() + timedelta(seconds=seconds)


def scheduled(title, **times):
    HomePage.objects.get(depth=2).add_child(instance=HomePage(title=title, slug=title, live=False))
    reschedule(title, **times)


def reschedule(title, **times):
    page = HomePage.objects.get(slug=title)
    for name, time in times.items():
        setattr(page, name, time)
    page.save_revision().publish()


def edit(title):
    HomePage.objects.get(slug=title).save_revision()


def unschedule(title):
    page = HomePage.objects.get(slug=title)
    client = Client()
    client.force_login(get_user_model().objects.create_superuser(f"editor of {title}"))
    address = reverse("wagtailadmin_pages:revisions_unschedule", args=[page.pk, page.scheduled_revision.pk])
    assert client.post(address).status_code == 302


def show(*titles):
    from django_delayed_tasks import Task, get_runs

    found = {}
    for title in titles:
        page = HomePage.objects.get(slug=title)
        tasks = Task.objects.filter(biz_num=page.pk).order_by("biz_code")
        ahead = {task.biz_code: round((task.when - timezone.now()) / timedelta(hours=1)) for task in tasks}
        ends = [run.get_outcome_display() for run in get_runs().filter(biz_num=page.pk)]
        found[title] = [page.live, page.expired, ahead, ends]
    print(json.dumps(found))
"""


@pytest.fixture
def newcomer(tmp_path: Path, python: str) -> Newcomer:
    """A newcomer who has a stock site, which is made once and kept beside its packages: its migrations take long."""
    kept = Path(python).parents[1] / "stock-site"
    with one_at_a_time(kept):
        if not kept.exists():
            made = tmp_path / "made"
            made.mkdir()
            maker = Newcomer(made, python=python)
            maker.run("python -c 'from wagtail.bin.wagtail import main; main()' start mysite .")
            maker.run("python manage.py migrate --verbosity 0")
            half = kept.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(made, half).rename(kept)
    return Newcomer(shutil.copytree(kept, tmp_path / "site"), python=python)


def test_a_published_page_is_found_after_a_drain(newcomer: Newcomer) -> None:
    newcomer.append("mysite/settings/base.py", SETTINGS)
    newcomer.append("steps.py", STEPS)
    newcomer.run("python manage.py migrate --verbosity 0")

    assert newcomer.types("from steps import *; publish('zebra'); print(found('zebra'))").strip() == "[]"
    newcomer.run("python manage.py starttask --drain")

    # With the option that the guide shows, no task fails: several of them index one page, and Wagtail's search looks
    # for its entry and then inserts it, which is not safe at the same time.
    newcomer.append("mysite/settings/base.py", ONE_AT_A_TIME)
    assert newcomer.types("from steps import *; print(found('zebra')); forget(); publish('gnu')").strip() == "['zebra']"
    newcomer.run("python manage.py starttask --drain")
    assert newcomer.types("from steps import *; print(found('gnu'), outcomes())").strip() == "['gnu'] {0}"


def test_scheduled_pages_are_published_by_tasks_of_their_own(newcomer: Newcomer) -> None:
    newcomer.append("scheduling.py", SCHEDULING)
    at = "scheduled('{}', {}=in_seconds({}))".format
    newcomer.types(f"from scheduling import *; {at('before', 'go_live_at', 36000)}")
    newcomer.follows(GUIDE)
    newcomer.types(f"from scheduling import *; {at('moved', 'go_live_at', 3600)}; {at('given-up', 'go_live_at', 7200)}")
    newcomer.types(f"from scheduling import *; {at('published', 'go_live_at', 1)}; {at('ended', 'expire_at', 1)}")
    newcomer.types("from scheduling import *; reschedule('moved', go_live_at=in_seconds(10800)); edit('moved')")
    newcomer.types("from scheduling import *; unschedule('given-up')")
    newcomer.run("python manage.py starttask --max-tasks 2")

    shown = json.loads(
        newcomer.types("from scheduling import *; show(*'before moved given-up published ended'.split())")
    )
    assert shown == {
        "before": [False, False, {"publish-page": 10}, []],
        "moved": [False, False, {"publish-page": 3}, []],
        "given-up": [False, False, {}, ["cancelled"]],
        "published": [True, False, {}, ["done"]],
        "ended": [False, True, {}, ["done"]],
    }


def test_a_task_that_fires_too_soon_waits_for_the_time_of_its_page(newcomer: Newcomer) -> None:
    newcomer.append("scheduling.py", SCHEDULING)
    newcomer.follows(GUIDE)
    newcomer.types("from scheduling import *; scheduled('soon', go_live_at=in_seconds(3600))")
    newcomer.types("from home.task_handlers import *; publish_page.reschedule(Page.objects.get(slug='soon').pk, None)")
    newcomer.run("python manage.py starttask --drain")

    shown = json.loads(newcomer.types("from scheduling import *; show('soon')"))
    assert shown == {"soon": [False, False, {"publish-page": 1}, ["rescheduled"]]}
