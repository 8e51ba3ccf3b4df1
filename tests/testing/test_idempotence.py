"""``assert_idempotent``: what a second call changes is named."""

from typing import Any

import pytest
from django.core import mail
from django.db import transaction

from django_delayed_tasks import Task, TaskHandler, add_task, task_handler
from django_delayed_tasks.exceptions import UnknownCode
from django_delayed_tasks.models import Resource
from django_delayed_tasks.testing import assert_idempotent, make_task
from tests.executor.parts import handler_of
from tests.testing.test_in_test_case import effects, write

pytestmark = pytest.mark.django_db

EPOCH = "1970-01-01T00:00Z"


def refused(handler: Any, **options: Any) -> str:
    """What the assertion says of this handler."""
    with pytest.raises(AssertionError) as failed:
        assert_idempotent(handler, make_task("code", "7"), **options)
    return str(failed.value)


def put(name: str = "effect") -> None:
    Resource.objects.get_or_create(pool="effects", name=name, defaults={"busy_before": EPOCH, "version": 1})


def count(task: Any) -> None:
    put()
    row = Resource.objects.get(name="effect")
    row.version += 1
    row.save()


def test_an_idempotent_handler_passes() -> None:
    assert_idempotent(lambda task: put(), make_task("code"))


def test_nothing_is_left_behind() -> None:
    assert_idempotent(lambda task: put(), make_task("code"))
    refused(count)
    assert effects() == []


def test_a_changed_field_is_named() -> None:
    text = refused(count)
    assert text.startswith("count is not idempotent: its second call changed\n  django_delayed_tasks.Resource ")
    assert text.endswith(": version was 2, is 3")


@pytest.mark.parametrize(
    "ignore", ["version", "django_delayed_tasks.Resource.version", "django_delayed_tasks.Resource"]
)
def test_what_may_differ(ignore: str) -> None:
    assert_idempotent(count, make_task("code"), ignore=[ignore])
    assert_idempotent(count, make_task("code"), ignore=ignore)


def test_a_part_of_a_name_does_not_stand_for_the_whole() -> None:
    assert "version was 2, is 3" in refused(count, ignore="django_delayed_tasks.Resource.version and more")


def test_an_unknown_code() -> None:
    with pytest.raises(UnknownCode, match="typo"):
        assert_idempotent("typo", make_task("code"))


def test_a_row_that_is_added_again_is_named() -> None:
    text = refused(lambda task: write(f"effect {Resource.objects.count()}"))
    assert ": added, {" in text
    assert "'name': 'effect 1'" in text


def test_a_row_that_is_deleted_is_named() -> None:
    write("one")
    write("two")

    def handle(task: Any) -> None:
        Resource.objects.order_by("id")[:1].get().delete()

    assert refused(handle).endswith(": deleted")
    assert effects() == ["one", "two"]


def test_a_second_call_that_raises_is_told() -> None:
    def handle(task: Any) -> None:
        with transaction.atomic():
            write()

    assert "the second call of handle raised IntegrityError" in refused(handle)


def test_what_the_first_call_raises_is_raised() -> None:
    def handle(task: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        assert_idempotent(handle, make_task("code"))


@pytest.mark.filterwarnings("ignore:Django 2028 will not have a default mailer")
def test_a_mail_that_is_sent_twice() -> None:
    def handle(task: Any) -> None:
        transaction.on_commit(lambda: mail.send_mail("Hello", "text", "a@example.org", ["b@example.org"]))

    assert "mail.outbox 2: added, {'subject': 'Hello', 'to': ['b@example.org']}" in refused(handle)
    assert mail.outbox == []
    assert_idempotent(handle, make_task("code"), ignore=["mail.outbox"])


def test_a_task_that_is_added_again_is_no_difference() -> None:
    handler_of(lambda task: None)
    moment = make_task("code").when
    assert_idempotent(lambda task: add_task(Task(biz_code="code", biz_num="next", when=moment)), make_task("code"))
    assert not Task.objects.exists()


def test_a_task_that_is_postponed_each_time() -> None:
    handler_of(lambda task: None)
    assert "django_delayed_tasks.Task code next: when was " in refused(
        lambda task: add_task(Task(biz_code="code", biz_num="next"))
    )


class Class(TaskHandler):
    biz_code = "class"

    def handle(self, task: Any) -> None:
        count(task)


class Batched(TaskHandler):
    biz_code = "batched"

    def handle_batch(self, tasks: list[Any]) -> None:
        [task] = tasks
        count(task)


class Coroutine(TaskHandler):
    biz_code = "coroutine"

    async def handle(self, task: Any) -> None:
        row, _ = await Resource.objects.aget_or_create(
            pool="effects", name="effect", defaults={"busy_before": EPOCH, "version": 1}
        )
        row.version += 1
        await row.asave()


@pytest.mark.parametrize("handler", [Class, Class(), Batched, Coroutine])
def test_every_kind_of_handler(handler: Any) -> None:
    assert "version was 2, is 3" in refused(handler)


def test_a_decorated_function_and_its_code() -> None:
    @task_handler("decorated")
    def decorated(task: Any) -> None:
        count(task)

    assert "decorated is not idempotent" in refused(decorated)
    assert "decorated is not idempotent" in refused("decorated")


def test_the_second_call_gets_the_data_as_they_were() -> None:
    def handle(task: Any) -> None:
        put("-".join(task.biz_ext))
        task.biz_ext.append("again")

    assert_idempotent(handle, make_task("code", biz_ext=["a", "b"]))


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_of_the_test() -> None:
    assert "version was 2, is 3" in refused(count)
    assert effects() == []
