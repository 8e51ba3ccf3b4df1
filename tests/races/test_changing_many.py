"""Tasks change between the look of a bulk call at them and its writes: it does what the call for one task would do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import api
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.schedules import verbs as portions
from tests.store import verbs
from tests.store.verbs import ALIAS, CODE, HOUR
from tests.threads import in_thread, start_thread

pytestmark = pytest.mark.usefixtures("live_db")

CALLS: dict[str, Callable[[], int]] = {
    "cancel": lambda: api.cancel_tasks(CODE, "-a"),
    "retry": lambda: api.retry_tasks(CODE, "-a"),
    "reschedule": lambda: api.reschedule_tasks(CODE, "-a", by=HOUR),
}
FIRST = "1-a"


def state() -> list[Any]:
    fields = ("biz_num", "status", "version", "attempts", "deferred_when", "cancel_requested_at")
    return [
        (num, status, version, attempts, bool(deferred), bool(cancelled))
        for num, status, version, attempts, deferred, cancelled in Task.objects.order_by("biz_num").values_list(*fields)
    ]


@contextmanager
def after_the_look(meanwhile: Callable[[], object]) -> Iterator[list[str]]:
    """When the call has looked at a portion, something happens in another connection; each time that it looks."""
    looks: list[str] = []

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        result = run(sql, params, many, context)
        if sql.startswith("SELECT") and " IN (" in sql and "t.status" not in sql:
            looks.append(sql)
            if len(looks) == 1:
                in_thread(meanwhile)
        return result

    with connection.execute_wrapper(execute):
        yield looks


def claimed() -> None:
    assert {run.biz_num for run in verbs.claim()} == {FIRST}


def replaced() -> None:
    verbs.add(FIRST, 5 * HOUR)


def cancelled() -> None:
    api.cancel_task(CODE, FIRST)


def added_again() -> None:
    cancelled()
    replaced()


def changed() -> None:
    [seen] = Task.objects.filter(biz_num=FIRST).values_list("id", "version")
    assert portions.Edit(biz_ext='"new"').verb().to_seen(ALIAS, [seen])


def run_and_failed() -> None:
    verbs.settle(verbs.failed(verbs.claim_one()))


def due() -> None:
    verbs.add(FIRST)
    verbs.add("2-a", HOUR)
    verbs.add("3-b", HOUR)


def failed() -> None:
    for num in (FIRST, "2-a"):
        verbs.add(num)
        verbs.settle(verbs.failed(verbs.claim_one()))


MEETINGS = [
    ("cancel", due, claimed, 2, 2),
    ("cancel", due, replaced, 2, 2),
    ("cancel", due, changed, 2, 2),
    ("cancel", due, run_and_failed, 2, 2),
    ("cancel", due, cancelled, 1, 2),
    ("reschedule", due, claimed, 2, 2),
    ("reschedule", due, replaced, 2, 2),
    ("reschedule", due, run_and_failed, 2, 2),
    ("reschedule", due, cancelled, 1, 2),
    ("retry", failed, replaced, 1, 2),
    ("retry", failed, changed, 2, 2),
    ("retry", failed, cancelled, 1, 2),
    ("retry", due, run_and_failed, 0, 0),
]


@pytest.mark.parametrize(("verb", "before", "meanwhile", "count", "looks"), MEETINGS)
def test_what_happens_between_look_and_lock(
    verb: str, before: Callable[[], None], meanwhile: Callable[[], None], count: int, looks: int
) -> None:
    before()
    with after_the_look(meanwhile) as looked:
        assert CALLS[verb]() == count
    assert len(looked) == looks
    found = state(), list(TaskRun.objects.order_by("biz_num", "id").values_list("biz_num", "outcome"))
    Task._base_manager.all().delete()
    TaskRun.objects.all().delete()
    before()
    if looks:
        meanwhile()
    assert CALLS[verb]() == count
    expected = state(), list(TaskRun.objects.order_by("biz_num", "id").values_list("biz_num", "outcome"))
    assert found == expected


def test_a_task_that_is_added_again_is_another_one() -> None:
    due()
    with after_the_look(added_again):
        assert api.cancel_tasks(CODE, "-a") == 1
    assert set(Task.objects.values_list("biz_num", flat=True)) == {FIRST, "3-b"}


def test_while_others_claim_and_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is left that would run again: those not yet cancelled when they are claimed are stopped."""
    monkeypatch.setattr(portions, "PORTION", 10)
    api.add_tasks(verbs.task(f"{number:03}") for number in range(200))
    begun, enough = Event(), Event()

    def work(executor: int) -> None:
        while not enough.is_set():
            runs = verbs.claim(executor=executor, limit=7)
            begun.set()
            verbs.settle(*[verbs.retry(run, timedelta()) for run in runs])

    threads = [start_thread(partial(work, executor)) for executor in (1, 2)]
    try:
        assert begun.wait(60)
        cancelled = api.cancel_tasks(CODE, everything=True)
        left = Task.objects.exclude(status=TaskStatus.RUNNING, cancel_requested_at__isnull=False).count()
    finally:
        enough.set()
        for thread in threads:
            thread.result()
    assert (cancelled, left, Task.objects.count()) == (200, 0, 0)
    assert TaskRun.objects.filter(outcome=RunOutcome.CANCELLED).count() == 200
