"""SQLite knows two encodings, and Django reads moments from one of them only."""

from typing import Any

from django_delayed_tasks import api
from tests.charsets.databases import created, migrate, switched_to
from tests.complaints import found, numbers
from tests.store import verbs


def test_the_check_refuses_utf_16(django_db_setup: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock(), created("UTF-16") as name, switched_to(name):
        [message] = found(["default"])
    assert message.id == "django_delayed_tasks.E023"
    assert "UTF-16" in message.msg


def test_utf_8_is_right(whole: str) -> None:
    assert numbers(["default"]) == []


def test_migrating_does_not_let_ids_be_used_again(django_db_setup: None, django_db_blocker: Any) -> None:
    """Not even those of tasks that are gone: Django's way to change a column would count from the remaining rows."""
    with django_db_blocker.unblock(), created("UTF-8", "0006") as name, switched_to(name):
        for num in "123":
            last = verbs.add(num).task_id
            api.cancel_task(verbs.CODE, num)
        migrate()
        assert verbs.add("\U0001f600" * 255).task_id > last
