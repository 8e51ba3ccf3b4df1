"""Connections of MariaDB and MySQL with another character set: right, or an error; never in silence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.leases import Pool, mutex
from django_delayed_tasks.models import PausedQueue, Resource, Task, TaskRun
from django_delayed_tasks.states import IfExistsName
from tests.charsets.texts import TEXTS
from tests.complaints import found, numbers
from tests.executor.parts import claim, registered
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

pytestmark = pytest.mark.django_db(transaction=True)

CHARSETS = ["utf8mb3", "latin1", "gbk"]


@contextmanager
def options(**changed: Any) -> Iterator[None]:
    """Within, connections have these options."""
    before = connection.settings_dict["OPTIONS"]
    connection.close()
    connection.settings_dict["OPTIONS"] = {**before, **changed}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["OPTIONS"] = before


def attempt(verb: Callable[..., Any], *arguments: Any, **options: Any) -> bool:
    """Whether it raised no error."""
    try:
        verb(*arguments, **options)
    except Exception:
        return False
    return True


def identities() -> dict[str, Any]:
    return {task.biz_num: task.biz_ext for task in Task.objects.all()}


@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("if_exists", ["replace", "keep", "raise", "latest"])
def test_tasks_are_added_as_they_are_or_not_at_all(charset: str, if_exists: IfExistsName) -> None:
    tasks = {text: verbs.task(text, HOUR, biz_ext={text: text}) for text in TEXTS}
    with options(charset=charset):
        one_by_one = [text for text, task in tasks.items() if attempt(api.add_task, task, if_exists=if_exists)]
    assert identities() == {text: {text: text} for text in one_by_one}


@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("if_exists", ["replace", "keep", "raise"])
def test_rows_that_are_sent_along_pass_every_connection(charset: str, if_exists: IfExistsName) -> None:
    with options(charset=charset):
        api.add_tasks((verbs.task(text, HOUR, biz_ext={text: text}) for text in TEXTS), if_exists=if_exists)
    assert identities() == {text: {text: text} for text in TEXTS}
    api.delete_tasks(CODE, "", everything=True)


@pytest.mark.parametrize("charset", CHARSETS)
def test_data_of_a_plain_number_is_kept_or_refused(charset: str) -> None:
    with options(charset=charset):
        added = [
            text for text in TEXTS if attempt(api.add_task, verbs.task(str(TEXTS.index(text)), HOUR, biz_ext=text))
        ]
    assert identities() == {str(TEXTS.index(text)): text for text in added}


@pytest.mark.parametrize("charset", CHARSETS)
def test_verbs_find_their_own_or_raise(charset: str) -> None:
    api.add_tasks(verbs.task(text, HOUR) for text in TEXTS)
    with options(charset=charset):
        paused = {text for text in TEXTS if attempt(api.pause_queue, text)}
        cancelled = {text for text in TEXTS if attempt(api.cancel_task, CODE, text)}
    assert set(PausedQueue.objects.values_list("queue", flat=True)) == paused
    assert set(TaskRun.objects.values_list("biz_num", flat=True)) == cancelled
    assert identities().keys() == set(TEXTS) - cancelled


@pytest.mark.parametrize("charset", CHARSETS)
def test_ends_of_runs_are_kept_or_refused(charset: str) -> None:
    api.add_tasks(verbs.task(str(number), biz_ext=0) for number in range(len(TEXTS)))
    runs = dict(zip(TEXTS, verbs.claim(), strict=True))
    with options(charset=charset):
        written = [text for text, run in runs.items() if attempt(verbs.settle, verbs.again(run, HOUR, text))]
    assert {str(task.biz_ext) for task in Task.objects.exclude(biz_ext=0)} == set(written)


@pytest.mark.parametrize("charset", CHARSETS)
def test_resources_are_kept_or_refused(charset: str) -> None:
    def leave(text: str) -> None:
        with mutex("state", ttl=30) as lease:
            lease.state = {"left": text}

    with options(charset=charset):
        added = {text for text in TEXTS if attempt(Pool("pool").add, text, text)}
    assert {row.name: row.payload for row in Pool("pool").resources()} == {text: text for text in added}
    for text in TEXTS:
        with options(charset=charset):
            is_left = attempt(leave, text)
        assert not is_left or Resource.objects.get(name="state").state == {"left": text}


@pytest.mark.parametrize("charset", CHARSETS)
def test_no_executor_starts(charset: str) -> None:
    with options(charset=charset), pytest.raises(TaskException, match=f"character_set_results = {charset}.*'utf8mb4'"):
        registered()
    assert claim(registered()) == []


@pytest.mark.parametrize("charset", [*CHARSETS, "utf8"])
def test_the_check_refuses_the_option(charset: str) -> None:
    with options(charset=charset):
        assert numbers() == numbers(["default"]) == ["E022"]


def test_the_check_refuses_what_else_changes_it() -> None:
    assert numbers(["default"]) == []
    with options(), connection.cursor() as cursor:
        cursor.execute("SET NAMES latin1")
        assert numbers() == []
        [message] = found(["default"])
    assert message.id == "django_delayed_tasks.E022"
    assert "character_set_results = latin1" in message.msg
    assert settings.DATABASES["default"]["OPTIONS"]["charset"] == "utf8mb4"
