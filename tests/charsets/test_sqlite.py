"""SQLite knows two encodings, and Django reads moments from one of them only."""

from typing import Any

from tests.charsets.databases import created, switched_to
from tests.complaints import found, numbers


def test_the_check_refuses_utf_16(django_db_setup: None, django_db_blocker: Any) -> None:
    with django_db_blocker.unblock(), created("UTF-16") as name, switched_to(name):
        [message] = found(["default"])
    assert message.id == "django_delayed_tasks.E023"
    assert "UTF-16" in message.msg


def test_utf_8_is_right(whole: str) -> None:
    assert numbers(["default"]) == []
