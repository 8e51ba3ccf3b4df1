"""A filter of a project's log that raises ends no thread of an executor."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks import Fail, Task, TaskRun
from django_delayed_tasks.executor.settling import settler
from django_delayed_tasks.executor.settling.run_log import logs_good_ends, run_logger
from django_delayed_tasks.executor.threads import crew
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.sql import kept_connections
from tests import waiting
from tests.executor import parts
from tests.executor.parts import add, handler_of
from tests.executor.settling.test_settler import answering

pytestmark = pytest.mark.django_db(transaction=True)

# Less than usual: if a thread has ended, the test is to fail soon, and its executor not to wait for that thread.
wait_until = partial(waiting.wait_until, timeout=10)
executing = partial(parts.executing, shutdown_timeout=1.0)


class Refusing(logging.Handler):
    """A handler of the root logger whose filter raises, as one of a project may; it counts how often."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        self.times = 0

    def filter(self, record: logging.LogRecord) -> Any:
        self.times += 1
        raise self.error


@pytest.fixture(params=[RuntimeError("filter"), SystemExit(3)], ids=repr)
def refusing(request: pytest.FixtureRequest) -> Iterator[Refusing]:
    handler = Refusing(request.param)
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def failing_once(error: BaseException) -> Any:
    errors = [error]

    def fail(*_: Any, **options: Any) -> None:
        if errors:
            raise errors.pop()

    return fail


def test_none_of_those_that_report(refusing: Refusing) -> None:
    def on_failed(self: Any, task: Any, error: str) -> None:
        raise RuntimeError("also broken")

    handler_of(lambda task: Fail("no"), on_failed=on_failed)
    with executing() as executor:
        for count in (1, 2):
            add(str(count))
            wait_until(lambda: refusing.times >= 2 * count)  # noqa: B023
        for one in (executor.failures._crew, executor.failures.log._crew):
            assert one.threads[0].is_alive()


def test_no_worker(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "IDLE", -1.0)
    monkeypatch.setattr(kept_connections.OfThread, "refresh", failing_once(RuntimeError("no connection")))
    handler_of(lambda task: None)
    add()
    with executing(threads=1) as executor:
        wait_until(lambda: not Task.objects.exists())
        assert executor.workers.threads[0].is_alive()
    assert refusing.times


def test_no_worker_whose_atomic_run_was_interrupted(refusing: Refusing) -> None:
    """An ``on_commit`` hook that raises is logged; what the run did stays committed."""

    def handle(task: Any) -> None:
        transaction.on_commit(failing_once(RuntimeError("hook")))

    handler_of(handle, atomic=True)
    add()
    with executing(threads=1):
        wait_until(lambda: refusing.times)
    assert TaskRun.objects.count() == 1
    assert not Task.objects.exists()


def test_not_the_settler(refusing: Refusing, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [SystemExit("not an answer"), settle, settle]
    monkeypatch.setattr(settler, "settle", answering(answers))
    handler_of(lambda task: Fail("no"))
    add()
    with executing(threads=1) as executor:
        wait_until(lambda: Task.objects.get().status == TaskStatus.FAILED)
        wait_until(lambda: not len(executor.held))
        assert executor.settler.is_alive
    assert refusing.times


def test_no_loop(refusing: Refusing) -> None:
    handler_of(lambda task: None)
    with executing() as executor:
        usual, fail = executor._polling._iterate, failing_once(RuntimeError("no poll"))

        def iterate() -> float:
            fail()
            return usual()

        executor._polling._iterate = iterate
        wait_until(lambda: refusing.times)
        add()
        wait_until(lambda: TaskRun.objects.exists())
        assert executor._polling.is_alive


def test_a_logger_that_raises_is_taken_for_one_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked in the settler's thread."""

    def refuse(level: int) -> bool:
        raise RuntimeError("broken")

    monkeypatch.setattr(run_logger.logger, "level", logging.INFO)
    run_logger.logger.manager._clear_cache()  # type: ignore[attr-defined]
    assert logs_good_ends()
    monkeypatch.setattr(run_logger.logger, "isEnabledFor", refuse)
    monkeypatch.setattr(logging, "raiseExceptions", False)
    assert not logs_good_ends()
