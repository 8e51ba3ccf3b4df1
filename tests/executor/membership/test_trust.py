"""How long an executor trusts its lease: never longer than other processes leave its claims alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.executor.membership.lease import Heartbeat, Lease
from django_delayed_tasks.executor.membership.reaper import Reaper
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.leases.lease import TRUSTED_PART
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.sql.tables import EXECUTOR
from tests.deaths import crash
from tests.executor.failure_reports import Told
from tests.executor.parts import Bench, add, claim, handler_of, registered

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]

LEASE = 15.0
HEARTBEAT = 3.0
SLOW = 6.0
"""Seconds that a statement takes, less than the lease is trusted for."""
Later = Callable[[float], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """``later(seconds)``: advance the monotonic clock of this host by that, and stop it there."""
    passed = [clock.monotonic()]
    monkeypatch.setattr(clock, "monotonic", lambda: passed[0])

    def pass_by(seconds: float) -> None:
        passed[0] += seconds

    return pass_by


@contextmanager
def at_the_lease(do: Callable[[], None]) -> Iterator[None]:
    """Call this before each statement that writes the row of an executor."""

    def watch(execute: Any, sql: str, *rest: Any) -> Any:
        if EXECUTOR in sql and not sql.startswith("SELECT"):
            do()
        return execute(sql, *rest)

    with connection.execute_wrapper(watch):
        yield


def fail() -> None:
    raise OperationalError(2006, "gone away")


@pytest.fixture
def lease(later: Later) -> Iterator[Lease]:
    """Held since just now."""
    made = Lease(ExecutorOptions(name="trusting", lease=LEASE, heartbeat=HEARTBEAT))
    made.acquire()
    yield made
    made.end()


@pytest.mark.parametrize("way", ["acquire", "renew"])
def test_it_counts_from_before_the_statement(lease: Lease, later: Later, way: str) -> None:
    """The database counts from when it executes that, which may be long before its answer is here."""
    Executor.objects.update(alive=None if way == "acquire" else True)
    later(100.0)
    waits = [SLOW]
    with at_the_lease(lambda: later(waits.pop() if waits else 0.0)):
        getattr(lease, way)()
    assert waits == []
    later(LEASE * TRUSTED_PART - SLOW - 0.1)
    assert clock.monotonic() < lease.trusted_until
    later(0.2)
    assert clock.monotonic() >= lease.trusted_until


def test_a_renewal_that_fails_takes_no_trust_but_ends_claiming(lease: Lease) -> None:
    with at_the_lease(fail), pytest.raises(OperationalError):
        lease.renew()
    assert clock.monotonic() < lease.trusted_until
    assert clock.monotonic() >= lease.claims_until
    assert lease.renew()
    assert clock.monotonic() < lease.claims_until


@pytest.mark.parametrize("way", ["by hand", "by another executor"])
def test_one_that_was_ended_is_not_trusted_although_its_time_is_not_over(lease: Lease, way: str) -> None:
    if way == "by hand":
        Executor.objects.update(alive=None)
    else:
        Executor.objects.all().delete()
    assert clock.monotonic() < lease.trusted_until
    assert not lease.renew()
    assert clock.monotonic() >= lease.trusted_until


def test_one_that_was_given_back_is_not_trusted(lease: Lease) -> None:
    lease.end()
    assert clock.monotonic() >= lease.trusted_until
    assert clock.monotonic() >= lease.claims_until


def test_one_that_ends_leaves_its_name_to_another_in_this_process(lease: Lease) -> None:
    other = Lease(ExecutorOptions(name="trusting"))
    with pytest.raises(NameInUse):
        other.acquire()
    lease.end()
    other.acquire()
    lease.end()  # once more, which must not take the name from the other one
    with pytest.raises(NameInUse):
        lease.acquire()
    other.end()


def test_an_executor_whose_renewals_fail_claims_nothing(bench: Bench) -> None:
    """It trusts its claims still; for new ones there may be too little time."""
    handler_of(lambda task: None)
    add("due")
    with at_the_lease(fail), pytest.raises(OperationalError):
        bench.lease.renew()
    assert clock.monotonic() < bench.lease.trusted_until
    assert bench.poller.poll() == bench.options.poll_interval
    assert Task.objects.get().status == TaskStatus.PENDING
    bench.lease.renew()
    bench.poller.poll()
    assert bench.numbers == ["due"]


class TestSteadiness:
    """Whether the lease of another executor that is over is the sign of a death, or of a pause of the database."""

    def test_a_new_one_becomes_steady_after_a_heartbeat(self, lease: Lease, later: Later) -> None:
        assert not lease.is_steady
        later(HEARTBEAT)
        assert lease.renew()
        assert lease.is_steady

    def test_it_stays_so_while_it_is_renewed(self, lease: Lease, later: Later) -> None:
        later(HEARTBEAT)
        for _ in range(10):
            lease.renew()
            assert lease.is_steady
            later(1.5 * HEARTBEAT)
            assert lease.is_steady

    def test_not_while_a_renewal_is_overdue(self, lease: Lease, later: Later) -> None:
        later(HEARTBEAT)
        lease.renew()
        later(2 * HEARTBEAT + 0.1)
        assert not lease.is_steady

    def test_nor_for_a_heartbeat_after_a_pause(self, lease: Lease, later: Later) -> None:
        """The others need that time to renew theirs."""
        later(HEARTBEAT)
        lease.renew()
        later(100.0)
        lease.renew()
        assert not lease.is_steady
        later(HEARTBEAT - 0.1)
        assert not lease.is_steady
        later(0.1)
        lease.renew()
        assert lease.is_steady

    def test_a_renewal_that_waits_is_a_pause(self, lease: Lease, later: Later) -> None:
        later(HEARTBEAT)
        lease.renew()
        later(HEARTBEAT)
        with at_the_lease(lambda: later(100.0)):
            lease.renew()
        assert not lease.is_steady

    def test_and_is_repeated_at_once(self, lease: Lease, later: Later) -> None:
        """The database may count from when the statement began to wait."""
        heartbeat = Heartbeat(ExecutorOptions(lease=LEASE, heartbeat=HEARTBEAT), lease, Event())
        with at_the_lease(lambda: later(HEARTBEAT + 0.1)):
            assert heartbeat.beat() == 0.0
        assert heartbeat.beat() == HEARTBEAT

    def test_one_that_takes_long_each_time_is_steady_in_between(self, lease: Lease, later: Later) -> None:
        """Tasks of dead executors must not wait for a database that is always slow."""
        for _ in range(3):
            with at_the_lease(lambda: later(2 * HEARTBEAT)):
                lease.renew()
            later(HEARTBEAT)
            assert lease.is_steady

    def test_not_under_a_new_id(self, lease: Lease, later: Later) -> None:
        later(HEARTBEAT)
        lease.renew()
        Executor.objects.update(alive=None)
        assert not lease.renew()
        lease.acquire()
        assert not lease.is_steady

    def test_not_after_its_end(self, lease: Lease, later: Later) -> None:
        later(HEARTBEAT)
        lease.renew()
        lease.end()
        assert not lease.is_steady


@pytest.mark.parametrize("is_steady", [False, True])
def test_only_one_that_is_steady_declares_others_dead(is_steady: bool, later: Later) -> None:
    """But it takes the tasks of those that are dead already."""
    options = ExecutorOptions(name="reaping", lease=LEASE, heartbeat=HEARTBEAT)
    lapsed, dead = registered("lapsed", lease=HEARTBEAT / 2), registered("dead")
    for executor in (lapsed, dead):
        add(str(executor))
        claim(executor)
    crash(dead)
    lease = Lease(options)
    lease.acquire()
    later(HEARTBEAT)
    with clock.frozen_at(clock.host_now() + timedelta(seconds=HEARTBEAT)):
        if is_steady:
            lease.renew()
        else:
            later(LEASE)
        Reaper(options, lease, Told()).reap()
    statuses = dict(Task.objects.values_list("biz_num", "status"))
    taken, held = TaskStatus.PENDING, TaskStatus.RUNNING
    assert statuses == {str(dead): taken, str(lapsed): taken if is_steady else held}
    lease.end()
