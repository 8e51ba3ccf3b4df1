"""Names with controls and characters that turn text around, which no form accepts, and no letter of a row escapes."""

import pytest
from django.test import Client

from django_delayed_tasks.models import PausedQueue, Task
from tests.admin import rows
from tests.admin.rows import NOW, list_of, page_of

NAME = "pay-\u202e0001\x1b[2J\n\x07"

pytestmark = pytest.mark.django_db


def test_names_are_isolated(boss: Client) -> None:
    """A letter that turns text around, in a row that SQL has written, turns nothing else around."""
    row = rows.task("pay-\u202e0001")
    for address in (list_of("task"), page_of(row, "delete")):
        assert "pay-\u202e0001</bdi>" in boss.get(address).content.decode(), address


def test_a_queue_with_such_a_name_can_be_resumed(boss: Client) -> None:
    PausedQueue.objects.create(queue=NAME, paused_at=NOW)
    boss.post(list_of("pausedqueue"), {"resume": NAME})
    assert not PausedQueue.objects.exists()


def test_a_form_refuses_them(boss: Client) -> None:
    form = {"biz_code": rows.CODE, "biz_num": "a\x1bb", "when_0": "", "when_1": "", "biz_ext": "", "queue": ""}
    more = {"priority": "", "trigger_text": "", "expires_at_0": "", "expires_at_1": ""}
    answer = boss.post(f"{list_of('task')}add/", {**form, **more})
    assert "is not shown as it is" in answer.content.decode()
    assert not Task.objects.exists()
