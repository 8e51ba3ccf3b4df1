"""A mutex with ``at_least`` is held for that long by the database's clock, however its block ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.leases import LeaseLost, Mutex, ResourceUnavailable, mutex
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import resources
from tests.leases.rows import force, later
from tests.leases.test_mutex import row
from tests.store.meters import statements
from tests.store.verbs import ALIAS, NOW
from tests.threads import in_thread, start_thread

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


@pytest.fixture(autouse=True)
def _frozen() -> Iterator[None]:
    with clock.frozen_at(NOW):
        yield


def is_free() -> bool:
    """Whether another process would get it; it is given back at once."""
    with suppress(ResourceUnavailable):
        with mutex("index"):
            pass
        return True
    return False


@contextmanager
def at_the_end_of(seconds: float) -> Iterator[None]:
    """It is not free a millisecond before that many seconds after NOW; the block begins when they have passed."""
    with later(seconds - 0.001):
        assert not is_free()
    with later(seconds):
        yield


def works(guard: Mutex) -> None:
    with guard:
        pass


def fails(guard: Mutex) -> None:
    with pytest.raises(ZeroDivisionError), guard:
        _ = 1 / 0


def works_until(seconds: float) -> Callable[[Mutex], None]:
    def work(guard: Mutex) -> None:
        guard.__enter__()
        with later(seconds):
            guard.__exit__(None, None, None)

    return work


def is_decorated(guard: Mutex) -> None:
    assert guard(lambda: 7)() == 7


def fails_decorated(guard: Mutex) -> None:
    with pytest.raises(ZeroDivisionError):
        guard(lambda: 1 / 0)()


def cannot_save_its_state(guard: Mutex) -> None:
    with pytest.raises(ValueError, match="state"), guard as lease:
        lease.state = {1}  # type: ignore[assignment]


def dies(guard: Mutex) -> None:
    renewer.drop(guard.__enter__())


ENDS = [works, fails, works_until(4), is_decorated, fails_decorated, cannot_save_its_state, dies]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("at_least", [30, timedelta(seconds=30)])
def test_no_other_process_gets_it_before(end: Callable[[Mutex], None], at_least: Any) -> None:
    end(mutex("index", ttl=10, at_least=at_least))
    with at_the_end_of(30):
        assert is_free()


@pytest.mark.parametrize("end", ENDS[:-1])
def test_less_than_the_ttl(end: Callable[[Mutex], None]) -> None:
    end(mutex("index", ttl=100, at_least=5))
    with at_the_end_of(5):
        assert is_free()


def test_work_that_took_longer_gives_it_back_at_once() -> None:
    works_until(5)(mutex("index", ttl=100, at_least=5))
    with later(5):
        assert is_free()
    assert row().holder == ""


def test_without_it_the_mutex_is_free_at_once() -> None:
    works(mutex("index", at_least=0))
    assert is_free()


def test_a_renewal_does_not_shorten_it() -> None:
    with mutex("index", ttl=10, at_least=30) as lease:
        with later(3):
            renewer.renew(ALIAS, [lease])
        assert row().busy_before == NOW + timedelta(seconds=30)
        with later(25):
            renewer.renew(ALIAS, [lease])
        assert row().busy_before == NOW + timedelta(seconds=35)


def test_a_renewal_that_comes_after_the_end_changes_nothing() -> None:
    """It was under way when the block ended."""
    with mutex("index", ttl=10, at_least=30) as lease:
        pass
    before = Resource.objects.values().get()
    assert resources.renew(ALIAS, [(lease.grant, lease.ttl)]) == (set(), set())
    assert Resource.objects.values().get() == before
    with pytest.raises(LeaseLost):
        lease.check()
    assert not lease.is_held


def test_no_thread_and_no_further_statement_waits_for_the_end() -> None:
    works(mutex("index"))
    with statements() as sent:
        works(mutex("index", at_least=30))
    assert len(sent) == 4  # look, take, read; release
    assert renewer.leases() == []


def test_those_on_standby_are_told() -> None:
    told: list[Any] = []
    works(mutex("index", at_least=30))
    guard = mutex("index", on_standby=lambda *holder: told.append(holder))
    with later(1):
        assert guard(lambda: 7)() is None
        expected = rf"process {row().pid}, had it, and keeps it for its at_least, until {NOW + timedelta(seconds=30)}$"
        with pytest.raises(ResourceUnavailable, match=expected.replace("+", r"\+")):
            mutex("index").__enter__()
    assert told == [(row().host, row().pid, NOW)]


def test_the_next_holder_has_a_greater_token_and_the_state() -> None:
    with mutex("index", at_least=30) as first:
        first.state["at"] = 5
    with later(30), mutex("index", at_least=30) as second:
        assert (second.token, second.state) == (first.token + 1, {"at": 5})
        second.check()
    with later(59.9):
        assert not is_free()


def test_a_waiting_thread_gets_it_at_the_end() -> None:
    """The thread that kept it may wait for it, too: it holds nothing."""
    works(mutex("index", at_least=30))
    with pytest.raises(ResourceUnavailable, match="within"):
        mutex("index", wait=0.01).__enter__()
    seen: list[object] = []

    def pass_the_time(*holder: object) -> None:
        seen.append(holder)
        clock._override = lambda: NOW + timedelta(seconds=30)

    with mutex("index", wait=60, on_standby=pass_the_time) as lease:
        lease.check()
    assert len(seen) == 1


def test_of_many_threads_one_works() -> None:
    """Short jobs that are started one after the other, and at once."""
    runs: list[int] = []

    def job() -> None:
        with suppress(ResourceUnavailable), mutex("index", at_least=30) as lease:
            runs.append(lease.token)

    for thread in [start_thread(job) for _ in range(8)]:
        thread.result()
    in_thread(job)
    assert len(runs) == 1


def test_force_ends_it() -> None:
    with mutex("index", at_least=30) as lease:
        pass
    force(lease)
    assert is_free()


def test_who_lost_it_keeps_nothing() -> None:
    with mutex("index", at_least=30) as lease:
        force(lease)
    assert is_free()
