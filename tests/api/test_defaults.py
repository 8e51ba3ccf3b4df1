"""What the handler of a code decides: whether it is known, and where its tasks wait."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import InvalidTask, UnknownCode
from django_delayed_tasks.handlers import TaskHandler
from django_delayed_tasks.handlers.registry import preserved
from django_delayed_tasks.models import Task
from tests.store import verbs
from tests.store.verbs import HOUR, NOW


class Mail(TaskHandler):
    biz_code = "mail"
    queue = "letters"
    priority = 7

    def handle(self, task: Any) -> None:
        """Never called here."""


class Plain(TaskHandler):
    biz_code = "plain"

    def handle(self, task: Any) -> None:
        """Never called here."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    with preserved():
        api.register_task_handler(Mail)
        api.register_task_handler(Plain())
        yield


@pytest.fixture
def known_only() -> Iterator[None]:
    with override_settings(DELAYED_TASKS={}):
        yield


@pytest.mark.usefixtures("known_only")
def test_an_unknown_code(db: None) -> None:
    with pytest.raises(UnknownCode, match=r"^biz_code='test': no handler .*\(known: .*mail, plain") as caught:
        verbs.add()
    error: InvalidTask = caught.value
    assert (error.field, error.value) == ("biz_code", "test")
    with pytest.raises(UnknownCode):
        api.add_tasks([verbs.task(biz_code="mail"), verbs.task()])
    assert Task.objects.count() == 0
    assert verbs.add(biz_code="mail").action == "created"
    assert api.add_tasks([verbs.task("2", biz_code="plain")]) == 1


@pytest.mark.parametrize(
    ("code", "given", "expected"),
    [
        ("mail", {}, ("letters", 7)),
        ("mail", {"queue": "other"}, ("other", 7)),
        ("mail", {"priority": 0}, ("letters", 0)),
        ("mail", {"queue": "", "priority": None}, ("letters", 7)),
        ("plain", {}, ("default", 0)),
        ("unknown", {}, ("default", 0)),
        ("plain", {"priority": -100}, ("default", -100)),
        ("plain", {"priority": 100}, ("default", 100)),
    ],
)
def test_queue_and_priority(db: None, code: str, given: dict[str, Any], expected: tuple[str, int]) -> None:
    verbs.add("one", biz_code=code, **given)
    api.add_tasks([verbs.task("many", biz_code=code, **given)])
    assert set(Task.objects.values_list("queue", "priority")) == {expected}


def test_schedule_is_add_task_with_this_code(db: None, frozen: None) -> None:
    result = Mail.schedule("1", HOUR, {"to": "me"}, priority=1)
    row = verbs.present("1", "mail")
    assert (result.task_id, result.action) == (row.id, "created")
    assert (row.when, row.biz_ext, row.queue, row.priority) == (NOW + HOUR, {"to": "me"}, "letters", 1)
    assert Mail.schedule("1", if_exists="keep").action == "kept"
    assert Mail.schedule("1", timedelta(days=1)).action == "replaced"
