"""A stock Wagtail site whose tasks run on this store: two settings are changed, and nothing else."""

import shutil
from pathlib import Path

import pytest

from harness.servers.downloads import one_at_a_time
from tests.newcomer import Newcomer

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
