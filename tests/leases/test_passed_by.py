"""The line has those who wait, and no others; a contender that was passed by comes back to its place."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from django_delayed_tasks.leases import Pool, ResourceUnavailable, mutex
from django_delayed_tasks.leases.renewer import PLACE_TTL
from django_delayed_tasks.models import Waiter
from django_delayed_tasks.store.resources import line
from django_delayed_tasks.store.sql.tables import WAITER
from tests.leases.rows import POOL, add, wanted
from tests.store.meters import statements
from tests.store.verbs import ALIAS
from tests.threads import DatabaseThread, in_thread, start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def places() -> list[int]:
    return list(Waiter.objects.order_by("pk").values_list("pk", flat=True))


@contextmanager
def one_waiting() -> Iterator[int]:
    """Another thread waits for a resource of the pool, which is held here meanwhile; its place."""

    def wait() -> str:
        with Pool(POOL).lease(wait=60) as resource:
            return resource.name

    add("a")
    with Pool(POOL).lease(wait=0):
        thread: DatabaseThread[str] = start_thread(wait)
        wait_until(places)
        [place] = places()
        yield place
    assert thread.result() == "a"


def test_who_waits_takes_its_place_again() -> None:
    """A contender that comes later must not be served before it from now on."""
    with one_waiting() as place:
        for _ in range(2):
            line.pass_by(ALIAS, wanted(), line.LAST, 1)
            wait_until(lambda: places() == [place])


def test_it_is_ahead_of_those_who_came_later() -> None:
    with one_waiting() as place:
        later = line.enter(ALIAS, wanted(), PLACE_TTL)
        line.pass_by(ALIAS, wanted(), later, 1)
        wait_until(lambda: places() == [place, later])
        line.leave(ALIAS, [later])


@pytest.mark.parametrize("count", [1, 5])
def test_one_passes_by_those_ahead_and_never_itself(count: int) -> None:
    first, mine, last = (line.enter(ALIAS, wanted(), PLACE_TTL) for _ in range(3))
    line.pass_by(ALIAS, wanted(), mine, count)
    assert places() == [mine, last]
    line.pass_by(ALIAS, wanted(), mine, count)
    assert places() == [mine, last]
    assert first not in places()


def test_who_does_not_wait_does_not_stand_in_line() -> None:
    """A look is all that it costs: no row is written for it, which others would have to pass by."""
    add("a")
    with Pool(POOL).lease(wait=0), mutex("index"), statements() as sent:
        for one in (Pool(POOL).lease(wait=0), mutex("index", wait=0)):
            with pytest.raises(ResourceUnavailable):
                one.__enter__()
    assert sent
    assert [sql for sql in sent if WAITER in sql and not sql.startswith("SELECT")] == []


def test_who_waited_in_vain_does_not_stand_in_line_any_more() -> None:
    add("a")
    with Pool(POOL).lease(wait=0), statements() as sent:
        with pytest.raises(ResourceUnavailable):
            Pool(POOL).lease(wait=0.05).__enter__()
        assert places() == []
        with mutex("index"), pytest.raises(ResourceUnavailable):
            in_thread(mutex("index", wait=0.05).__enter__)
        assert places() == []
    assert [sql for sql in sent if WAITER in sql and sql.startswith("INSERT")] != []
