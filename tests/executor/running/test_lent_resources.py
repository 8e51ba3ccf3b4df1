"""A task that a pool has lent a resource, and that will not start here: it is released, and the resource given back."""

from datetime import timedelta
from threading import Event

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection

from django_delayed_tasks.executor.running.awaited_runs import AwaitedRuns
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.leases.pool import LeasedResource, Pool
from django_delayed_tasks.models import Resource
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.claiming.claimed_task import lend, lose
from tests.executor.parts import Bench, add, claim, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def with_resource(bench: Bench) -> tuple[CurrentRun, LeasedResource]:
    """Return the run of a task that holds a resource."""
    Pool("proxies").add("one")
    handler_of(lambda task: None)
    add()
    running = CurrentRun(claim(bench.lease.executor), began=0.0)
    bench.held.add(running.tasks)
    resource = LeasedResource(Pool("proxies"), timedelta(minutes=1), 0.0)
    resource.acquire()
    lend(running.tasks[0], resource)
    return running, resource


def perform(bench: Bench, running: CurrentRun, is_async: bool) -> None:
    if is_async:
        async_to_sync(bench.performer.aperform)(running)
    else:
        bench.performer.perform(running)


@pytest.mark.parametrize("is_async", [False, True])
def test_what_was_given_up_before_it_began_keeps_no_resource(bench: Bench, is_async: bool) -> None:
    running, resource = with_resource(bench)
    assert running.abandon()
    perform(bench, running, is_async)
    assert not resource.is_held
    assert Resource.objects.get().holder == ""


@pytest.mark.parametrize("is_async", [False, True])
def test_a_resource_is_given_back_if_the_lease_is_over(
    bench: Bench, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.lease, "trusted_until", float("-inf"))
    running, resource = with_resource(bench)
    perform(bench, running, is_async)
    assert not resource.is_held
    assert [settlement.then for settlement in bench.released] == [NextState.RELEASED]


def test_an_async_task_is_released_before_its_resource_is_given_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may have to wait; meanwhile the run would be given up as one that takes too long."""
    monkeypatch.setattr(bench.lease, "trusted_until", float("-inf"))
    running, resource = with_resource(bench)
    released: list[bool] = []
    usual = LeasedResource.release

    def release(given: LeasedResource) -> None:
        released.append(not bench.held.ended.empty())
        usual(given)

    monkeypatch.setattr(LeasedResource, "release", release)
    perform(bench, running, is_async=True)
    assert released == [True]
    assert not resource.is_held


class Lent:
    """A resource, as a run sees it."""

    is_held = True

    def renew_no_more(self) -> None:
        pass

    def release(self) -> None:
        self.is_held = False


def test_it_is_not_released_twice_while_its_resource_waits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread for queries is busy, and the watchdog sees that the claim is lost."""
    monkeypatch.setattr(bench.lease, "trusted_until", float("-inf"))
    running, resource = with_resource(bench)
    resource.release()
    [task], lent = running.tasks, Lent()
    lend(task, lent)
    lose(task)
    awaited = AwaitedRuns(bench.options, bench.capacity)
    awaited.start(bench.performer)
    loop, is_busy, go_on = awaited.loop, Event(), Event()
    loop.start()

    def keep_busy() -> None:
        connection.ensure_connection()  # no run starts before
        is_busy.set()
        assert go_on.wait(60)

    try:
        loop.call_soon(lambda: loop.create_task(sync_to_async(keep_busy)(), "busy"))
        assert is_busy.wait(60)
        awaited.put([task])
        wait_until(lambda: bench.released)
        for _ in range(3):
            awaited.watch()
            assert awaited.current() == []
        go_on.set()
        wait_until(lambda: not lent.is_held)
    finally:
        go_on.set()
        awaited.finish(60)
    assert [settlement.then for settlement in bench.released] == [NextState.RELEASED]
