"""A lease with ``at_most`` is renewed for that long: a thread that is deadlocked gives up what it holds."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from threading import Event, get_ident
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.leases import Lease, LeaseLost, Pool, mutex
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource
from tests.leases.rows import POOL, free_names, later
from tests.store.meters import statements
from tests.store.verbs import ALIAS, NOW
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


class Time:
    """This host's monotonic clock and the database's clock, which stand still until they are moved.

    For the renewer's thread, if there is one, nothing becomes due.
    """

    def __init__(self) -> None:
        self._thread = get_ident()
        self._real = clock.monotonic
        self.begun = self._real() + 1e6
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.begun + self.passed if get_ident() == self._thread else self._real()

    def go_to(self, seconds: float) -> None:
        self.passed = seconds
        clock._override = lambda: NOW + timedelta(seconds=seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Iterator[Time]:
    time = Time()
    monkeypatch.setattr(clock, "monotonic", time.monotonic)
    with clock.frozen_at(NOW):
        yield time


def renew(*leases: Any) -> None:
    renewer.renew(ALIAS, list(leases))


def held_until() -> timedelta:
    return Resource.objects.get().busy_before - NOW


Make = Callable[..., AbstractContextManager[Any]]


def one_of_a_pool(**options: Any) -> AbstractContextManager[Any]:
    Pool(POOL).add("a")
    return Pool(POOL).lease(**options)


@pytest.fixture(params=["mutex", "pool"])
def make(request: pytest.FixtureRequest) -> Make:
    return one_of_a_pool if request.param == "pool" else lambda **options: mutex("index", **options)


def lease_of(held: Any) -> Lease:
    return held if isinstance(held, Lease) else held._held


@pytest.mark.parametrize("at_most", [60, timedelta(minutes=1)])
def test_it_is_not_renewed_after_it(make: Make, at_most: Any, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    with make(ttl=30, at_most=at_most) as held:
        lease = lease_of(held)
        for moment in (10, 20, 30, 40, 50, 59.9):
            time.go_to(moment)
            assert held.is_held
            renew(lease)
        held.check()
        time.go_to(60)
        assert not held.is_held
        with pytest.raises(LeaseLost, match=r"is no longer held, since its at_most is over$"):
            held.check()
        with statements() as sent:
            renew(lease)
        assert not sent
        assert renewer.leases() == []
        assert held_until() == timedelta(seconds=89.9)
        time.go_to(89)
        assert not held.is_held
        assert caplog.text.count("was held for its at_most") == 1
        time.go_to(90)
    assert "was lost" not in caplog.text


def test_the_end_of_the_block_gives_it_back_before_its_ttl(make: Make, time: Time) -> None:
    with make(ttl=30, at_most=10) as held:
        time.go_to(10)
        renew(lease_of(held))
    assert held_until() == timedelta(seconds=10)
    assert Resource.objects.get().holder == ""


def test_state_is_not_written_after_it(time: Time) -> None:
    with mutex("index", ttl=30, at_most=10, state={"at": 1}) as lease:
        lease.state["at"] = 2
        lease.save_state()
        time.go_to(10)
        lease.state["at"] = 3
        with pytest.raises(LeaseLost, match=r"its at_most is over: its state was not saved$"):
            lease.save_state()
    assert Resource.objects.get().state == {"at": 2}


def test_it_may_be_shorter_than_the_ttl(make: Make, time: Time) -> None:
    with make(ttl=30, at_most=1) as held:
        time.go_to(0.9)
        assert held.is_held
        time.go_to(1)
        assert not held.is_held
        renew(lease_of(held))
        assert held_until() == timedelta(seconds=30)


def test_others_are_renewed_in_the_same_statement(time: Time) -> None:
    pool = Pool(POOL)
    for name in "abc":
        pool.add(name)
    with pool.lease(at_most=100) as first, pool.lease(at_most=50) as second, pool.lease() as third:
        time.go_to(20)
        leases = [first._held, second._held, third._held]
        with statements() as sent:
            renew(*leases)
        assert sum("renewed_at" in statement for statement in sent) == 1
        time.go_to(50)
        renew(*leases)
        assert [one.is_held for one in (first, second, third)] == [True, False, True]
        assert renewer.leases() == [first._held, third._held]


def test_it_is_due_at_its_end(time: Time) -> None:
    with mutex("index", ttl=30, at_most=15) as lease:
        assert renewer._due[lease] == time.begun + 10
        time.go_to(10)
        renew(lease)
        assert renewer._due[lease] == time.begun + 15


def test_it_keeps_a_mutex_for_at_least(time: Time) -> None:
    """A hang does not make the mutex free before the end of ``at_least``."""
    with mutex("index", ttl=5, at_least=20, at_most=20) as lease:
        time.go_to(4)
        renew(lease)
        time.go_to(20)
        assert not lease.is_held
    assert held_until() == timedelta(seconds=20)


def test_replacing_after_it_sets_nothing_aside(time: Time) -> None:
    """The resource is not broken. For the new one it counts again."""
    pool = Pool(POOL)
    for name in "ab":
        pool.add(name)
    with pool.lease(ttl=30, at_most=10, wait=0) as resource:
        time.go_to(11)
        resource.replace()
        assert resource.name == "b"
        time.go_to(20)
        resource.check()
        time.go_to(21)
        assert not resource.is_held
    with later(22):
        assert free_names() == ["a", "b"]


def test_each_run_of_a_function_counts_from_its_own_acquisition(time: Time) -> None:
    def job(lease: Lease) -> bool:
        return lease.is_held

    run: Any = mutex("index", ttl=30, at_most=10)(job)
    assert run()
    time.go_to(11)
    assert run()


def test_what_a_deadlocked_thread_holds_is_free_after_it(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    is_held, is_over = Event(), Event()

    def hang() -> bool:
        with make(ttl=2, at_most=0.5) as held:
            is_held.set()
            assert is_over.wait(60)
            return bool(held.is_held)

    thread = start_thread(hang)
    assert is_held.wait(60)
    with make(wait=60, ttl=60) as held:
        is_over.set()
        assert not thread.result()
        held.check()
    wait_until(lambda: "was held for its at_most" in caplog.text)


def test_what_was_given_back_meanwhile_is_not_said(time: Time, caplog: pytest.LogCaptureFixture) -> None:
    with mutex("index", at_most=10) as lease:
        pass
    time.go_to(10)
    renew(lease)
    assert not caplog.text


def test_the_thread_of_the_renewer_notices_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with mutex("index", ttl=600, at_most=0.2) as lease:
        wait_until(lambda: lease not in renewer.leases())  # long before a third of the ttl
        assert not lease.is_held
        wait_until(lambda: "was held for its at_most" in caplog.text)
