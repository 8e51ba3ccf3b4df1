"""The database's clock was ahead for a while, and is right again: what rests is named, and one command mends it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from django_delayed_tasks import Task, add_task, stats
from django_delayed_tasks.clock import frozen_at
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.leases import mutex
from django_delayed_tasks.models import Executor, Resource
from django_delayed_tasks.models import Task as TaskRow
from django_delayed_tasks.stats import snapshot
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import MUTEXES, WantedResource
from django_delayed_tasks.triggers import Cron, Interval
from tests.executor.parts import drain, handler_of, registered
from tests.recurring.machine import MINUTE, NOON

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

HOUR = timedelta(hours=1)
AHEAD = NOON + HOUR
SECOND = timedelta(seconds=1)
TRIGGERS = [Interval(minutes=10), Cron("*/10 * * * *"), Interval(minutes=10, every="finish")]


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    with registry.preserved():
        registry.clear()
        yield


def run_at(moment: datetime) -> None:
    """An executor starts, does all that is due, and stops."""
    with frozen_at(moment):
        drain()


def kinds() -> list[str]:
    found = [problem.kind for problem in stats.problems()]
    return [kind for kind in found if kind in ("clock_was_ahead", "lease_ahead")]


def retime(*arguments: str) -> Any:
    out = StringIO()
    with suppress(SystemExit):
        call_command("tasks", "retime", "--format=json", *arguments, stdout=out)
    return json.loads(out.getvalue())


def health() -> str:
    out = StringIO()
    with suppress(SystemExit):
        call_command("taskhealth", "--executors=0", stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
def test_a_recurring_task(trigger: Any) -> None:
    seen: list[datetime] = []
    handler_of(lambda task: seen.append(task.when), "nightly-report", trigger=trigger)
    run_at(NOON - 10 * MINUTE)
    run_at(AHEAD)
    with frozen_at(NOON + SECOND):
        assert TaskRow.objects.get().when > AHEAD
        [problem] = [one for one in stats.problems() if one.kind == "clock_was_ahead"]
        assert (problem.level, problem.subject) == ("warning", "nightly-report")
        assert problem.text.startswith("nightly-report waits until ")
        assert problem.text.endswith(", which its trigger would not do: was the clock ahead?")
        assert problem.advice.startswith("Run: manage.py tasks retime")
        assert problem.text in health()
        assert retime("--dry-run") == {"tasks": 1, "leases": 0}
        assert kinds() == ["clock_was_ahead"]
        assert retime() == {"tasks": 1, "leases": 0}
        assert kinds() == []
        assert retime() == {"tasks": 0, "leases": 0}
    assert NOON < TaskRow.objects.get().when <= NOON + 10 * MINUTE + SECOND
    times = len(seen)
    run_at(NOON + 11 * MINUTE)
    assert len(seen) == times + 1


@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
def test_a_task_with_a_trigger_of_its_own(trigger: Any) -> None:
    handler_of(lambda task: None, "own")
    with frozen_at(NOON):
        add_task(Task(biz_code="own", biz_num="1", trigger=trigger))
    run_at(AHEAD)
    with frozen_at(NOON + SECOND):
        assert kinds() == ["clock_was_ahead"]
        assert retime() == {"tasks": 1, "leases": 0}
    assert TaskRow.objects.get().when <= NOON + 10 * MINUTE + SECOND


def test_what_a_caller_has_moved_is_left_alone() -> None:
    handler = handler_of(lambda task: None, "nightly-report", trigger=Interval(minutes=10))
    with frozen_at(NOON):
        drain()
        handler.reschedule("recurring", NOON + 5 * HOUR)
        handler.schedule("once", NOON + 5 * HOUR)
    with frozen_at(AHEAD):
        handler.schedule("later", NOON + 5 * HOUR)
    with frozen_at(NOON + SECOND):
        assert kinds() == []
        assert retime() == {"tasks": 0, "leases": 0}
    assert {row.when for row in TaskRow.objects.all()} == {NOON + 5 * HOUR}


def test_one_that_a_handler_declared_behind_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "COUNTED", 10)
    handler_of(lambda task: None, "nightly-report", trigger=Cron("0 3 * * *", tz="UTC"))
    handler_of(lambda task: None, "other")
    with frozen_at(NOON):
        drain()
    with frozen_at(NOON + 15 * HOUR):  # 03:00
        drain()
    with frozen_at(NOON + SECOND):
        for number in range(12):
            add_task(Task(biz_code="other", biz_num=str(number), when=HOUR))
        assert kinds() == ["clock_was_ahead"]
        assert retime()["tasks"] == 1
        assert TaskRow.objects.get(biz_code="nightly-report").when == NOON + 15 * HOUR


def test_a_retry_waits_as_long_as_it_was_to() -> None:
    def fail(task: Any) -> None:
        raise ValueError

    handler = handler_of(fail, "failing", max_attempts=3, backoff=lambda self, attempt: 5 * MINUTE)
    with frozen_at(AHEAD):
        handler.schedule("1")
        drain()
    with frozen_at(NOON):
        assert retime()["tasks"] == 1
    row = TaskRow.objects.get()
    assert (row.attempts, row.claim_at) == (1, NOON + 5 * MINUTE)
    assert "ValueError" in row.last_error


def test_what_was_due_at_once_is_due_now() -> None:
    handler = handler_of(lambda task: None, "at-once")
    with frozen_at(AHEAD):
        handler.schedule("1")
    with frozen_at(NOON):
        assert retime()["tasks"] == 1
    run_at(NOON)
    assert not TaskRow.objects.exists()


def test_a_mutex_of_a_dead_holder() -> None:
    """Its lease then runs from now on: a holder that is alive, and about to renew, does not lose it."""
    wanted = WantedResource(MUTEXES, "stock")
    with frozen_at(AHEAD):
        resources.ensure("default", wanted)
        [free] = line.queue_view("default", wanted).free
        grant = resources.take("default", free, "me", 30 * SECOND)
        assert grant
    with frozen_at(NOON):
        [problem] = [one for one in stats.problems() if one.kind == "lease_ahead"]
        assert problem.text.startswith("“stock” (ddt.mutex) is leased until ")
        assert problem.text in health()
        assert retime("--dry-run") == {"tasks": 0, "leases": 1}
        assert retime() == {"tasks": 0, "leases": 1}
        assert kinds() == []
        assert resources.renew("default", [(grant, 30 * SECOND)]).held == {grant}
    with frozen_at(NOON + 31 * SECOND), mutex("stock", wait=0):
        pass


def test_a_released_one_is_free() -> None:
    with frozen_at(AHEAD), mutex("stock"):
        pass
    with frozen_at(NOON):
        assert kinds() == ["lease_ahead"]
        assert retime()["leases"] == 1
    with frozen_at(NOON + 31 * SECOND), mutex("stock", wait=0):
        pass


def test_a_lease_that_was_asked_for_is_left_alone() -> None:
    wanted = WantedResource(MUTEXES, "stock")
    with frozen_at(NOON - MINUTE):
        resources.ensure("default", wanted)
        [free] = line.queue_view("default", wanted).free
        grant = resources.take("default", free, "me", 5 * HOUR)
    with frozen_at(NOON):
        assert grant
        assert kinds() == []
        assert retime()["leases"] == 0
    assert Resource.objects.get().busy_before == NOON - MINUTE + 5 * HOUR


def test_the_lease_of_a_dead_executor() -> None:
    """Until it ends, no other executor takes what the dead one has claimed."""
    with frozen_at(AHEAD):
        registered("gone", lease=15.0)
    with frozen_at(NOON):
        assert retime()["leases"] == 1
    assert Executor.objects.get().expires_at == NOON + 15 * SECOND
