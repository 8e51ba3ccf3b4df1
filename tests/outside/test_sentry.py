"""Sentry, set up with ``group_by_code``: no event has a value that ``REDACT`` hides, wherever the data was on its way.

The SDK is the real one, with a transport that keeps what would be sent. ``tests/processes/`` has more.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sentry_sdk
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import override_settings
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import EventHandler
from sentry_sdk.scrubber import DEFAULT_DENYLIST, EventScrubber
from sentry_sdk.transport import Transport

from django_delayed_tasks import Done, Reschedule, Task, aadd_task, add_task, add_tasks, handlers
from django_delayed_tasks.integrations.sentry import group_by_code
from django_delayed_tasks.models import TaskRun
from tests.executor.parts import add, claim, drain, handler_of, held_with, registered
from tests.executor.settling.test_settler import OPTIONS, done
from tests.executor.settling.writing import settler_of
from tests.function_tasks import functions
from tests.function_tasks.framework import task_finished

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = ["token", "note"]
SECRET = "".join(chr(ord(character) + 1) for character in "gtqp-wbmvf")  # it is not in the text of this file
DATA = {"list": [{"token": SECRET}]}
serve: Any = functions.serve
fail_with: Any = functions.fail_with
fail_with_later: Any = functions.fail_with_later


class Kept(Transport):
    """Keeps what would be sent."""

    events: list[str] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.events += [item.get_bytes().decode() for item in envelope.items]


@pytest.fixture
def events() -> Iterator[list[str]]:
    """What is sent of exceptions that the test reports, and of errors in logs; nothing else of Sentry is active."""
    Kept.events.clear()
    client = sentry_sdk.Client(
        dsn="https://key@sentry.invalid/1", transport=Kept, before_send=group_by_code, default_integrations=False,
        event_scrubber=EventScrubber(denylist=[*DEFAULT_DENYLIST, *KEYS], recursive=True), attach_stacktrace=True,
        max_value_length=100_000,
    )  # fmt: skip
    scope, handler = sentry_sdk.get_global_scope(), EventHandler(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("django_delayed_tasks", "django.tasks", "django.request")]
    scope.set_client(client)
    for logger in loggers:
        logger.addHandler(handler)
    with override_settings(DELAYED_TASKS={"REDACT": KEYS}):
        yield Kept.events
    for logger in loggers:
        logger.removeHandler(handler)
    client.close(timeout=0)
    scope.set_client(None)


@contextmanager
def away(model: Any) -> Iterator[None]:
    """Rename a table in the block, so that every statement that uses it fails."""
    rename = "ALTER TABLE {} RENAME TO {}".format
    with connection.cursor() as cursor:
        cursor.execute(rename(model._meta.db_table, "away"))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(rename("away", model._meta.db_table))


def reported(call: Callable[[], object]) -> None:
    """Report what the call raises, as Sentry's integrations do."""
    try:
        call()
    except Exception as error:
        sentry_sdk.capture_exception(error)


def settle_without_history() -> None:
    add(biz_ext=DATA)
    [task] = claim(registered())
    held = held_with(OPTIONS)
    held.add([task])
    held.put_end(done(task.claim)._replace(result=json.dumps(DATA), biz_ext=json.dumps(DATA), keep_data=True))
    with refused_history():
        settler = settler_of(held)
        settler.start()
        assert settler.finish(timeout=60)


@contextmanager
def refused_history() -> Iterator[None]:
    table = TaskRun._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TRIGGER refused BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER refused")


def fail_with_outcomes(task: Any) -> None:
    outcomes = [Done(result=DATA), Reschedule(timedelta(1), biz_ext=DATA)]
    raise ValueError(f"{len(outcomes)} outcomes, {outcomes}")


def enqueued_and_failed() -> None:
    result = serve.enqueue(SECRET, note=SECRET)
    raise ValueError(f"not sent: {result}")


def raising_receiver(sender: Any, task_result: Any, **_: Any) -> None:
    raise ValueError("received")


def run_with_a_receiver_that_raises() -> None:
    task_finished.connect(raising_receiver)
    try:
        fail_with.enqueue(SECRET, note=SECRET)
        drain()
    finally:
        task_finished.disconnect(raising_receiver)


def run_handler(handle: Callable[[Any], Any]) -> None:
    handler_of(handle, keep_data=True)
    add(biz_ext=DATA)
    drain()


def run_functions() -> None:
    fail_with.enqueue(SECRET, note=SECRET)
    fail_with_later.enqueue(SECRET, note=SECRET)
    drain()


IN_AN_OUTAGE: dict[str, Callable[[], object]] = {
    "add": lambda: add_task(Task(biz_code="code", biz_num="1", biz_ext=DATA)),
    "aadd": lambda: async_to_sync(aadd_task)(Task(biz_code="code", biz_num="1", biz_ext=DATA)),
    "add_many": lambda: add_tasks([Task(biz_code="code", biz_num=str(n), biz_ext=DATA) for n in range(3)]),
    "enqueue": lambda: serve.enqueue(SECRET, note=SECRET),
    "aenqueue": lambda: async_to_sync(serve.aenqueue)(SECRET, note=SECRET),
    "enqueue_many": lambda: serve.bulk_enqueue([([SECRET], {"note": SECRET})] * 2),
}
INVALID: dict[str, Callable[[], object]] = {
    "too large an int": lambda: add_task(Task(biz_code="code", biz_num="1", biz_ext={**DATA, "n": 2**70})),
    "no JSON": lambda: add_task(Task(biz_code="code", biz_num="1", biz_ext={**DATA, "n": object()})),
    "one of many": lambda: add_tasks([Task(biz_code="code", biz_num="1", biz_ext={**DATA, "n": 2**70})]),
    "arguments": lambda: serve.enqueue(SECRET, note=[SECRET, 2**70]),
    "arguments of other types": lambda: serve.enqueue(SECRET, note=[SECRET, object()]),
    "a bad identity": lambda: add_task(Task(biz_code="code", biz_num="", biz_ext=DATA)),
    "a result that is used later": enqueued_and_failed,
}
LOGGED: dict[str, Callable[[], object]] = {
    "functions that raise": run_functions,
    "a receiver that raises": run_with_a_receiver_that_raises,
    "a handler that raises": lambda: run_handler(fail_with_outcomes),
    "an invalid result": lambda: run_handler(lambda task: Done(result={**DATA, "n": object()})),
    "invalid data for the next run": lambda: run_handler(lambda task: Reschedule(timedelta(1), {**DATA, "n": 2**70})),
    "an invalid outcome": lambda: run_handler(lambda task: {"outcome": DATA}),
}


@pytest.fixture
def registered_code() -> Iterator[None]:
    with handlers.registry.preserved():
        handler_of(lambda task: None)
        yield


@pytest.mark.parametrize("call", IN_AN_OUTAGE.values(), ids=IN_AN_OUTAGE)
def test_an_outage(events: list[str], registered_code: None, call: Callable[[], object]) -> None:
    with away(Task):
        reported(call)
    check(events)


@pytest.mark.parametrize("call", INVALID.values(), ids=INVALID)
def test_invalid_data(events: list[str], registered_code: None, call: Callable[[], object]) -> None:
    reported(call)
    check(events)


@pytest.mark.parametrize("call", LOGGED.values(), ids=LOGGED)
def test_a_run_that_fails(events: list[str], call: Callable[[], object]) -> None:
    with handlers.registry.preserved():
        call()
    check(events)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a trigger in the words of SQLite; events are alike")
def test_an_end_that_cannot_be_written(events: list[str], registered_code: None) -> None:
    settle_without_history()
    assert any("stays claimed" in event for event in events)
    check(events)


def test_a_form_of_the_admin(events: list[str]) -> None:
    """Sentry's integration adds the form of a request to its events."""
    form = {"biz_ext": json.dumps(DATA), "biz_num": "A-1"}
    with sentry_sdk.new_scope() as scope:
        scope.add_event_processor(lambda event, hint: {**event, "request": {"data": form}})
        reported(lambda: 1 // 0)
    assert '"A-1"' in events[-1]
    check(events)


def test_the_variables_of_the_projects_own_code_are_sent(events: list[str], registered_code: None) -> None:
    def caller() -> None:
        order = 4711
        add_task(Task(biz_code="code", biz_num=str(order), biz_ext={"n": 2**70}))

    reported(caller)
    frames = json.loads(events[-1])["exception"]["values"][-1]["stacktrace"]["frames"]
    assert [frame["vars"]["order"] for frame in frames if frame["function"] == "caller"] == ["4711"]
    assert not any("vars" in frame for frame in frames if frame["module"].startswith("django_delayed_tasks."))


def check(events: list[str]) -> None:
    assert events
    for event in events:
        assert SECRET not in event


def test_values_that_are_no_outcome_make_one_issue(events: list[str]) -> None:
    handler_of(lambda task: f"text {task.biz_num}")
    for number in "12":
        add(number)
        drain()
    kinds = [json.loads(event)["fingerprint"][1:] for event in events if "fingerprint" in json.loads(event)]
    assert kinds == [["code", "django_delayed_tasks.exceptions.InvalidOutcome"]] * 2
