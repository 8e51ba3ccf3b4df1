"""How long an executor trusts its lease: never longer than other processes leave its claims alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.leases.lease import TRUSTED_PART
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.sql.tables import EXECUTOR
from tests.executor.parts import Bench, add, handler_of

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]

LEASE = 15.0
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
    made = Lease(ExecutorOptions(name="trusting", lease=LEASE))
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
