"""In the transaction of a TestCase, handlers find what they find without one."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import TestCase

from django_delayed_tasks import Task, add_task
from django_delayed_tasks.models import Resource
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.testing import run_due_tasks, run_until
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, handler_of

pytestmark = pytest.mark.per_database

EPOCH = "1970-01-01T00:00Z"


def write(name: str = "effect") -> None:
    Resource.objects.create(pool="effects", name=name, busy_before=EPOCH, version=1)


def effects() -> list[str]:
    return list(Resource.objects.filter(pool="effects").order_by("id").values_list("name", flat=True))


class PlainTestCase(TestCase):
    """Each test of it leaves nothing behind: the next one would find it."""

    def run_one(self, handle: Any, **attributes: Any) -> Any:
        assert not Task.objects.exists()
        handler_of(handle, **attributes)
        add()
        [run] = run_due_tasks()
        return run

    def test_a_task_runs(self) -> None:
        assert self.run_one(lambda task: write()).outcome == RunOutcome.DONE
        assert effects() == ["effect"]

    def test_an_atomic_task_runs(self) -> None:
        assert self.run_one(lambda task: write(), atomic=True).outcome == RunOutcome.DONE
        assert effects() == ["effect"]

    def test_a_task_runs_days_later(self) -> None:
        handler_of(lambda task: write())
        add_task(Task(biz_code="code", biz_num="1", when=timedelta(days=3)))
        assert len(run_until(timedelta(days=4))) == 1
        assert effects() == ["effect"]


@pytest.mark.django_db
@pytest.mark.parametrize("is_atomic", [False, True], ids=["plain", "atomic"])
class TestHooks:
    def test_they_are_called_after_the_run(self, is_atomic: bool) -> None:
        told: list[str] = []

        def handle(task: Any) -> None:
            with transaction.atomic():
                transaction.on_commit(lambda: told.append("inside"))
            transaction.on_commit(lambda: told.append("outside"))
            transaction.on_commit(lambda: transaction.on_commit(lambda: told.append("later")))

        handler_of(handle, atomic=is_atomic)
        add()
        run_due_tasks()
        assert told == ["inside", "outside", "later"]

    def test_those_of_a_rolled_back_run_are_not(self, is_atomic: bool) -> None:
        told: list[str] = []

        def handle(task: Any) -> None:
            with transaction.atomic():
                transaction.on_commit(lambda: told.append("hook"))
                raise ValueError("no")

        handler_of(handle, atomic=is_atomic)
        add()
        assert run_due_tasks()[0].outcome == RunOutcome.RETRIED
        assert told == []

    def test_those_of_the_test_itself_are_not(self, is_atomic: bool) -> None:
        told: list[str] = []
        handler_of(lambda task: None, atomic=is_atomic)
        transaction.on_commit(lambda: told.append("test"))
        add()
        run_due_tasks()
        assert told == []
        with TestCase.captureOnCommitCallbacks() as callbacks:
            run_due_tasks()
        assert callbacks == []

    def test_what_one_raises_is_raised_when_the_run_is_settled(self, is_atomic: bool) -> None:
        def hook() -> None:
            raise ValueError("the mail server is away")

        handler_of(lambda task: transaction.on_commit(hook), atomic=is_atomic)
        add()
        with pytest.raises(ValueError, match="mail server"):
            run_due_tasks()
        assert not Task.objects.exists()

    def test_a_robust_one_is_logged(self, is_atomic: bool, caplog: pytest.LogCaptureFixture) -> None:
        def hook() -> None:
            raise ValueError("the mail server is away")

        handler_of(lambda task: transaction.on_commit(hook, robust=True), atomic=is_atomic)
        add()
        assert run_due_tasks()[0].outcome == RunOutcome.DONE
        assert "an on_commit hook raised" in caplog.text


@pytest.mark.django_db
def test_an_error_of_the_database_breaks_only_its_statement() -> None:
    def handle(task: Any) -> None:
        write()
        try:
            write()
        except IntegrityError:
            write("another")

    handler_of(handle)
    add()
    assert run_due_tasks()[0].outcome == RunOutcome.DONE
    assert effects() == ["effect", "another"]


@pytest.mark.django_db
def test_what_was_written_before_an_error_stays() -> None:
    def handle(task: Any) -> None:
        write()
        write()

    handler_of(handle)
    add()
    [run] = run_due_tasks()
    assert (run.outcome, type(run.exception)) == (RunOutcome.RETRIED, IntegrityError)
    assert effects() == ["effect"]


@pytest.mark.django_db
def test_what_an_atomic_handler_wrote_before_an_error_is_gone() -> None:
    def handle(task: Any) -> None:
        write()
        write()

    handler_of(handle, atomic=True)
    add()
    assert run_due_tasks()[0].outcome == RunOutcome.RETRIED
    assert effects() == []


@pytest.mark.django_db
def test_an_error_in_a_block_of_the_handler_undoes_the_block() -> None:
    def handle(task: Any) -> None:
        write("before")
        try:
            with transaction.atomic():
                write()
                write()
        except IntegrityError:
            write("after")

    handler_of(handle)
    add()
    assert run_due_tasks()[0].outcome == RunOutcome.DONE
    assert effects() == ["before", "after"]


@pytest.mark.django_db
def test_an_error_in_a_coroutine_breaks_only_its_statement() -> None:
    async def handle(task: Any) -> None:
        await Resource.objects.acreate(pool="effects", name="effect", busy_before=EPOCH, version=1)
        try:
            await Resource.objects.acreate(pool="effects", name="effect", busy_before=EPOCH, version=1)
        except IntegrityError:
            await Resource.objects.acreate(pool="effects", name="another", busy_before=EPOCH, version=1)

    async_handler_of(handle)
    add()
    assert run_due_tasks()[0].outcome == RunOutcome.DONE
    assert effects() == ["effect", "another"]


@pytest.mark.django_db
def test_the_transaction_is_usable_after_errors() -> None:
    def handle(task: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column FROM no_such_table")

    handler_of(handle, max_attempts=1)
    add()
    assert run_due_tasks()[0].outcome == RunOutcome.FAILED
    write()
    assert effects() == ["effect"]


@pytest.mark.django_db
def test_the_settlement_of_a_text_that_the_database_refuses() -> None:
    """A settlement that cannot be written does not break the transaction either."""

    class Unwritable(Exception):
        def __str__(self) -> str:
            return "a lone surrogate: \ud800"

    def handle(task: Any) -> None:
        raise Unwritable

    handler_of(handle, max_attempts=1)
    add()
    [run] = run_due_tasks()
    assert run.outcome == RunOutcome.FAILED
    write()
