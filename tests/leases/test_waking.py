"""What is given back in a process wakes those who wait for it there, one for each, without waiting for their pauses."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.leases import Lease, Pool, mutex
from django_delayed_tasks.leases.waiting import Pauses, wake
from django_delayed_tasks.leases.waiting import standing as stand
from django_delayed_tasks.store.resources.resources import MUTEXES, WantedResource
from tests.leases.rows import POOL, add, force, wanted
from tests.store.verbs import ALIAS
from tests.threads import in_thread

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


@contextmanager
def standing(what: WantedResource, count: int = 1) -> Iterator[list[Event]]:
    """Let ``count`` contenders wait for it in this process; the event of each is set when it is to look at once."""
    with ExitStack() as stack:
        yield [stack.enter_context(stand(ALIAS, what))[1].woken for _ in range(count)]


def test_a_mutex_that_is_given_back() -> None:
    with mutex("index") as lease, standing(WantedResource(MUTEXES, "index")) as [woken]:
        assert not woken.is_set()
        assert lease.release()
        assert woken.is_set()


def test_a_resource_of_a_pool_that_is_given_back() -> None:
    add("a")
    with Pool(POOL).lease(wait=0) as resource, standing(wanted()) as [woken]:
        assert not woken.is_set()
        resource.release()
        assert woken.is_set()


def quarantine(lease: Lease) -> None:
    lease.quarantine(Pool(POOL).quarantine)


@pytest.mark.parametrize("end", [quarantine, force])
def test_what_is_not_free_now_or_was_not_ours_wakes_none(end: Callable[[Lease], None]) -> None:
    with mutex("index") as lease, standing(WantedResource(MUTEXES, "index")) as [woken]:
        end(lease)
        lease.release()
        assert not woken.is_set()


def test_each_that_is_given_back_wakes_another_one() -> None:
    add("a", "b")
    with Pool(POOL).lease(wait=0) as one, Pool(POOL).lease(wait=0) as other, standing(wanted(), 3) as waiting:
        one.release()
        assert [woken.is_set() for woken in waiting] == [True, False, False]
        other.release()
        assert [woken.is_set() for woken in waiting] == [True, True, False]


def test_when_all_know_already_none_is_woken_twice() -> None:
    with standing(wanted(), 2) as waiting:
        for name in "abc":
            wake(ALIAS, wanted(name))
        assert all(woken.is_set() for woken in waiting)
        waiting[1].clear()
        wake(ALIAS, wanted("d"))
        assert waiting[1].is_set()


def test_whichever_thread_gives_it_back() -> None:
    with mutex("index") as lease, standing(WantedResource(MUTEXES, "index")) as [woken]:
        assert in_thread(lease.release)
        assert woken.is_set()


class TestPauses:
    """Between two looks."""

    LONG = 30.0
    """Seconds; no test waits for it."""

    def test_one_that_is_woken_ends_at_once(self) -> None:
        pauses = Pauses()
        pauses.woken.set()
        begun = clock.monotonic()
        pauses.sleep_for(self.LONG, None)
        assert clock.monotonic() - begun < self.LONG / 2

    @pytest.mark.parametrize("seconds", [0.0, LONG])
    def test_and_the_next_one_does_not(self, seconds: float) -> None:
        """It would look again and again without a pause."""
        pauses = Pauses()
        pauses.woken.set()
        pauses.sleep_for(seconds, None)
        assert not pauses.woken.is_set()

    def test_none_lasts_beyond_the_deadline(self) -> None:
        begun = clock.monotonic()
        Pauses().sleep_for(self.LONG, begun + 0.05)
        assert clock.monotonic() - begun < self.LONG / 2

    def test_nor_begins_after_it(self) -> None:
        begun = clock.monotonic()
        Pauses().sleep_for(self.LONG, begun - 1)
        assert clock.monotonic() - begun < self.LONG / 2

    def test_without_a_deadline_it_lasts_as_long_as_is_said(self) -> None:
        begun = clock.monotonic()
        Pauses().sleep_for(0.05, None)
        assert clock.monotonic() - begun > 0.04
