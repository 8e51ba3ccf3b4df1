"""A stock Wagtail site whose tasks run on this store: two settings are changed, and nothing else."""

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


def test_a_published_page_is_found_after_a_drain(newcomer: Newcomer) -> None:
    newcomer.run("python -c 'from wagtail.bin.wagtail import main; main()' start mysite .")
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
