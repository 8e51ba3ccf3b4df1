"""The pages that can be followed step by step are followed, as real commands in a fresh project on SQLite."""

import json
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings

from tests.newcomer import SETTINGS, Newcomer
from tests.pages import README, ROOT, blocks

DOCS = ROOT / "docs"

# They use SQLite whatever the database of the run: once is enough.
__test__ = settings.DDT_DATABASE == "sqlite"


def test_a_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="NameError: name 'nonsense' is not defined"):
        Newcomer(tmp_path).run("python -c nonsense")


def test_readme_leads_to_a_running_task(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    newcomer.run("django-admin startproject mysite .")
    newcomer.run("python manage.py startapp shop")
    newcomer.follows(README)

    newcomer.types("from shop.services import *; [place_order(number) for number in ('A-1', 'A-2', 'A-3')]")
    newcomer.types("from shop.services import *; grant_more_time('A-1'); pay_order('A-2')")
    listed = newcomer.run("python manage.py tasks list --code cancel-unpaid-order --format json")
    first, second = sorted(json.loads(listed), key=lambda task: task["biz_num"])
    assert (first["biz_num"], second["biz_num"]) == ("A-1", "A-3")
    assert first["when"] > second["when"]


def test_readme_leads_to_the_options_of_sqlite(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    newcomer.run("django-admin startproject mysite .")
    newcomer.append("mysite/settings.py", SETTINGS.replace(', "shop"', ""))
    warned = newcomer.run("python manage.py migrate")
    for option, value in tutorial_options().items():
        assert f"['{option}'] = '{value}'" in warned


def tutorial_options() -> dict[str, str]:
    """Return the options of SQLite that the tutorial sets."""
    [settings] = [block for block in blocks(DOCS / "tutorial/first-task.md") if block.file == "mysite/settings.py"]
    names: dict[str, Any] = {"INSTALLED_APPS": [], "DATABASES": {"default": {}}}
    exec(settings.text, names)
    options: dict[str, str] = names["DATABASES"]["default"]["OPTIONS"]
    return options


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
