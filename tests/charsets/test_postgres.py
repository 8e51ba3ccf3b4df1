"""PostgreSQL with another encoding than UTF8: what it cannot hold is refused, what it accepts is kept."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, NotSupportedError

from django_delayed_tasks import Done, api
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import IfExistsName
from tests.charsets.databases import created, empty, switched_to
from tests.charsets.texts import MIXED, TEXTS
from tests.complaints import found
from tests.executor.parts import drain, handler_of, registered
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

SAID = "支付😀"


@pytest.fixture(scope="module")
def ascii_name(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    with django_db_blocker.unblock(), created("SQL_ASCII") as name:
        yield name


@pytest.fixture
def without_encoding(ascii_name: str, django_db_blocker: Any) -> Iterator[None]:
    """The default database is one that takes bytes as they come."""
    with django_db_blocker.unblock(), switched_to(ascii_name):
        yield
        empty()


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("if_exists", ["replace", "keep", "raise", "earliest"])
@pytest.mark.parametrize("fields", [{"num": SAID}, {"biz_ext": {"x": SAID}}, {"queue": SAID}])
def test_a_task_that_cannot_be_held_is_refused(fields: dict[str, Any], if_exists: IfExistsName) -> None:
    task = verbs.task(when=HOUR, **fields)
    with pytest.raises(DataError):
        api.add_task(task, if_exists=if_exists)
    with pytest.raises(DataError):
        api.add_tasks([verbs.task("neighbour"), task], if_exists=if_exists)
    with pytest.raises(DataError):
        api.add_tasks([task, verbs.task("neighbour")], once=True)
    assert not Task.objects.exists()


@pytest.mark.usefixtures("narrow")
def test_a_verb_about_a_task_that_cannot_be_held_is_refused() -> None:
    for verb in (api.cancel_task, api.pause_task, api.resume_task, api.forget, api.delete_tasks):
        with pytest.raises(DataError):
            verb(CODE, SAID)
    with pytest.raises(DataError):
        api.reschedule_task(CODE, SAID, HOUR)


@pytest.mark.usefixtures("narrow")
def test_an_executor_whose_codes_cannot_be_held_is_refused() -> None:
    with pytest.raises(DataError):
        registered(codes=(SAID,))


@pytest.mark.usefixtures("narrow")
def test_the_check_names_the_encoding() -> None:
    [message] = found(["default"])
    assert (message.id, "LATIN1" in message.msg) == ("django_delayed_tasks.W022", True)


@pytest.mark.usefixtures("without_encoding")
def test_the_check_names_that_there_is_none() -> None:
    [message] = found(["default"])
    assert (message.id, "SQL_ASCII" in message.msg) == ("django_delayed_tasks.W022", True)


@pytest.mark.usefixtures("without_encoding")
def test_without_encoding_texts_are_kept() -> None:
    seen = {}

    def handle(task: Any) -> Done:
        seen[task.biz_num] = task.biz_ext
        return Done(result=task.biz_ext)

    handler_of(handle, code=CODE)
    api.add_tasks((verbs.task(text, biz_ext=[text]) for text in TEXTS), once=True)
    api.add_task(verbs.task(MIXED, biz_ext=[MIXED]))
    drain()
    assert seen == {text: [text] for text in [*TEXTS, MIXED]}
    assert {run.biz_num: run.result for run in TaskRun.objects.all()} == seen


@pytest.mark.usefixtures("without_encoding")
def test_without_encoding_an_executor_of_other_codes_than_ascii_is_refused() -> None:
    with pytest.raises(NotSupportedError):
        registered(codes=(SAID,))
