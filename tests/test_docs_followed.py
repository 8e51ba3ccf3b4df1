"""The pages that can be followed step by step are followed, as real commands in a fresh project on SQLite."""

from pathlib import Path

import django
import pytest
from django.conf import settings

from tests.newcomer import Newcomer
from tests.pages import README, ROOT

DOCS = ROOT / "docs"

# They use SQLite whatever the database of the run: once is enough.
__test__ = settings.DDT_DATABASE == "sqlite"


def test_a_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="NameError: name 'nonsense' is not defined"):
        Newcomer(tmp_path).run("python -c nonsense")


def test_readme_leads_to_a_running_task(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    newcomer.run("django-admin startproject mysite .")
    newcomer.follows(README)

    newcomer.types("from shop.services import *; place_order('A-1'); grant_more_time('A-1'); pay_order('A-1')")
    newcomer.types("from shop.task_handlers import *; cancel_unpaid_order.schedule('A-2')")
    drained = newcomer.run("python manage.py starttask --drain")

    assert "Order A-2 was not paid: cancelled." in drained
    assert "Drained: 1 run in" in drained


def test_tutorial_cancels_the_unpaid_order_alone(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    newcomer.follows(DOCS / "tutorial/first-task.md")

    assert "System check identified no issues" in newcomer.saw("check --database default")
    orders = newcomer.types(
        "from shop.models import Order; print(list(Order.objects.values_list('number', 'paid', 'cancelled')))"
    )
    assert orders.strip() == "[('A-1', False, True), ('A-2', True, False)]"
    assert newcomer.saw("get_runs").endswith("A-1 done\nA-2 cancelled\n")


@pytest.mark.skipif(django.VERSION < (6, 0), reason="the page is for Django 6")
def test_functions_of_django_tasks_run(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    newcomer.follows(DOCS / "tutorial/with-django-tasks.md")

    assert newcomer.saw("send_receipt.get_result").strip().endswith("SUCCESSFUL 3 1")
    assert newcomer.saw("shop.tasks.charge").count("'builtins.ConnectionError'") == 3
    assert newcomer.saw("backend.wait").strip().endswith("{'number': 'A-1', 'state': 'on its way'}")
    left = newcomer.types(
        "from django_delayed_tasks import Task; print(sorted(Task.objects.values_list('biz_num', 'status'))[-2:])"
    )
    assert "[('recurring', 0), ('reminder-A-1', 0)]" in left
