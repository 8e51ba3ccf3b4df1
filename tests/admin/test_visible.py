"""Names with controls and characters that turn text around, in rows that only SQL can write: every page is safe."""

import re
from typing import Any

import pytest
from django.test import Client

from django_delayed_tasks.models import PausedQueue, Resource, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.admin import rows
from tests.admin.pages import messages_of
from tests.admin.rows import NOW, list_of, page_of

NAME = "pay-\u202e0001\x1b[2J\n\x07"
SHOWN = r"pay-\u202e0001\u001b[2J\n\u0007"
UNSAFE = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

pytestmark = pytest.mark.django_db


@pytest.fixture
def found() -> list[Any]:
    """A row of each kind, all of whose texts have the name."""
    owner = rows.executor(NAME, host=NAME, queues=[NAME], codes=[NAME])
    own: dict[str, Any] = {
        "biz_code": NAME,
        "queue": NAME,
        "last_error": f"Traceback (most recent call last):\nValueError: {NAME}",
    }
    PausedQueue.objects.create(queue=NAME, paused_at=NOW)
    held = {"holder": "h", "host": NAME, "pid": 1, "busy_before": NOW, "acquired_at": NOW, "version": 1}
    return [
        rows.task(NAME, **own),
        rows.task(f"{NAME}2", **own, status=TaskStatus.FAILED),
        rows.task(
            f"{NAME}3", **own, status=TaskStatus.RUNNING, executor=owner.pk,
            progress_fraction=0.5, progress_note=NAME, progress_at=NOW,
        ),
        rows.run(NAME, RunOutcome.FAILED, biz_code=NAME, error=NAME, executor=owner.pk, exception=NAME),
        owner,
        Resource.objects.create(pool=NAME, name=NAME, **held),
    ]  # fmt: skip


def addresses(found: list[Any]) -> list[str]:
    lists = [list_of(model) for model in ("task", "taskrun", "executor", "resource", "pausedqueue", "overview")]
    deletions = [page_of(row, "delete") for row in found if isinstance(row, Task)]
    more = [f"{list_of('task')}errors/", f"{list_of('overview')}problems/", f"{list_of('overview')}?fragment=1"]
    return [*lists, *map(page_of, found), *deletions, *more]


def outside_of_forms(page: str) -> str:
    return re.sub(r"<textarea.*?</textarea>|<[^>]*>", "", page, flags=re.DOTALL)


def test_no_page_has_a_control(boss: Client, found: list[Any]) -> None:
    for address in addresses(found):
        response = boss.get(address)
        assert response.status_code == 200, address
        text = outside_of_forms(response.content.decode())
        assert UNSAFE.findall(text) == [], address


def test_names_are_isolated_and_have_escapes(boss: Client, found: list[Any]) -> None:
    for address in (list_of("task"), list_of("taskrun"), list_of("pausedqueue"), page_of(found[0], "delete")):
        assert f"<bdi>{SHOWN}" in boss.get(address).content.decode().replace(f"<bdi>{SHOWN} ", "<bdi>"), address


def test_a_question_names_them_so(boss: Client, found: list[Any]) -> None:
    keys = [row.pk for row in found[:2]]
    asked = boss.post(list_of("task"), {"action": "cancel", "_selected_action": keys}).content.decode()
    assert f"<li><bdi>{SHOWN} {SHOWN}</bdi>" in asked


def test_messages_name_them_so(boss: Client, found: list[Any]) -> None:
    page = boss.get(page_of(found[0], "delete")).content.decode()
    seen = re.findall(r'name="(_?seen[^"]*)" value="([^"]*)"', page)
    answer = boss.post(page_of(found[0], "delete"), {"post": "yes", **dict(seen)}, follow=True)
    assert all(UNSAFE.search(message) is None for message in messages_of(answer))


def test_a_queue_with_such_a_name_can_be_resumed(boss: Client, found: list[Any]) -> None:
    boss.post(list_of("pausedqueue"), {"resume": NAME})
    assert not PausedQueue.objects.exists()


def test_a_form_refuses_them(boss: Client) -> None:
    form = {"biz_code": rows.CODE, "biz_num": "a\x1bb", "when_0": "", "when_1": "", "biz_ext": "", "queue": ""}
    more = {"priority": "", "trigger_text": "", "expires_at_0": "", "expires_at_1": ""}
    answer = boss.post(f"{list_of('task')}add/", {**form, **more})
    assert "is not shown as it is" in answer.content.decode()
    assert not Task.objects.exists()
