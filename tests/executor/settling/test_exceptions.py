"""Hooks get the exception that ended a run, and not its text alone."""

import gc
import logging
from threading import Event
from typing import Any
from weakref import ReferenceType, ref

import pytest

from django_delayed_tasks import Fail, signals, task_handler
from django_delayed_tasks.exceptions import InvalidOutcome, TaskTimeout
from django_delayed_tasks.executor.settling import settler
from django_delayed_tasks.store.settling.settle import settle
from tests.executor.parts import add, drain, executing, handler_of
from tests.executor.settling.test_settler import answering
from tests.executor.settling.test_settler_loses_nothing import all_locked
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = ValueError("no such order")
Seen = dict[str, Any]


@pytest.fixture
def seen() -> Any:
    """What the receivers got, by the name of the signal."""
    got: Seen = {}

    def finished(exception: BaseException | None, **_: Any) -> None:
        got["run_finished"] = exception

    def failed(exception: BaseException | None, **_: Any) -> None:
        got["task_failed"] = exception

    signals.run_finished.connect(finished)
    signals.task_failed.connect(failed)
    yield got
    signals.run_finished.disconnect(finished)
    signals.task_failed.disconnect(failed)


def raises(task: Any) -> None:
    raise ERROR


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize(
    ("handle", "kind"),
    [(raises, ValueError), (lambda task: True, InvalidOutcome), (lambda task: Fail("no"), type(None))],
)
def test_all_of_them_get_it(atomic: bool, handle: Any, kind: type, seen: Seen) -> None:
    def on_failed(self: Any, task: Any, error: str, exception: BaseException | None = None) -> None:
        seen["on_failed"] = exception

    handler_of(handle, atomic=atomic, max_attempts=1, on_failed=on_failed)
    add()
    drain()
    assert list(seen) == ["run_finished", "task_failed", "on_failed"]
    assert {name: type(exception) for name, exception in seen.items()} == dict.fromkeys(seen, kind)
    if handle is raises:
        assert set(seen.values()) == {ERROR}


def test_a_timeout_has_one_too(seen: Seen) -> None:
    go_on = Event()
    handler_of(lambda task: go_on.wait(60) and None, timeout=0.2, max_attempts=1)
    add()
    with executing():
        wait_until(lambda: seen)
        go_on.set()
    assert isinstance(seen["task_failed"], TaskTimeout)


FORMS: dict[str, Any] = {
    "two": lambda task, error: got(task, error),
    "three": lambda task, error, exception: got(task, error, exception),
    "by name": lambda task, error, *, exception=None: got(task, error, exception),
    "any": lambda *given, **named: got(*given, **named),
}
calls: list[Any] = []


def got(task: Any, error: str, exception: Any = None) -> None:
    calls.append((task.biz_num, "no such order" in error, exception))


@pytest.mark.parametrize("form", FORMS)
def test_a_handler_that_does_not_take_it_is_called_as_before(form: str) -> None:
    calls.clear()

    @task_handler("code", max_attempts=1, on_failed=FORMS[form])
    def fails(task: Any) -> None:
        raise ERROR

    add()
    drain()
    assert calls == [("1", True, None if form == "two" else ERROR)]


class Tracked(Exception):
    """An error whose end can be awaited."""


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("is_locked", [False, True])
def test_none_is_kept_once_it_is_reported(atomic: bool, is_locked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A traceback holds frames, and so what a handler has in its variables."""
    kept: list[ReferenceType[BaseException]] = []
    monkeypatch.setattr(logging.getLogger("django_delayed_tasks.run"), "propagate", False)  # pytest keeps records
    if is_locked:
        monkeypatch.setattr(settler, "settle", answering([all_locked, settle]))

    def handle(task: Any) -> None:
        raise Tracked

    def on_failed(self: Any, task: Any, error: str, exception: BaseException | None = None) -> None:
        assert exception
        kept.append(ref(exception))

    handler_of(handle, atomic=atomic, max_attempts=1, on_failed=on_failed)
    add()
    with executing():
        wait_until(lambda: kept)
        wait_until(lambda: gc.collect() >= 0 and kept[0]() is None)
