"""Leasing one resource by its name, or one whose payload the caller accepts."""

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import InvalidTask
from django_delayed_tasks.leases import LeasedResource, Pool, ResourceUnavailable, UnknownPool, acquiring
from django_delayed_tasks.leases.pool import ROWS_A_SECOND, Chooser, Where
from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources import resources
from tests.leases.rows import POOL, TTL, free_names, row, wanted
from tests.store.meters import UNIT, reads, statements
from tests.store.verbs import ALIAS
from tests.threads import DatabaseThread, start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


@pytest.fixture
def pool() -> Pool:
    pool = Pool(POOL)
    for name in ("fr-1", "de-1", "fr-2"):
        pool.add(name, name[:2])
    return pool


def french(payload: Any) -> bool:
    return bool(payload == "fr")


def hold(pool: Pool, name: str) -> LeasedResource:
    return pool.lease(wait=0, name=name).__enter__()


class Seeing:
    """Accepts what is French, and counts what it was asked."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.was_asked = Event()

    def __call__(self, payload: Any) -> bool:
        self.seen.append(payload)
        self.was_asked.set()
        return french(payload)


def start_waiting(pool: Pool, **options: Any) -> DatabaseThread[str]:
    def wait() -> str:
        with pool.lease(wait=120, **options) as resource:
            return resource.name

    return start_thread(wait)


def test_by_name(pool: Pool) -> None:
    with pool.lease(wait=0, name="de-1") as resource:
        assert (resource.name, resource.payload) == ("de-1", "de")
        with pytest.raises(ResourceUnavailable, match="resource 'de-1' of pool 'proxies' was not available at once"):
            hold(pool, "de-1")
        assert sorted(free_names()) == ["fr-1", "fr-2"]


def test_by_a_name_that_is_not_there(pool: Pool) -> None:
    with pytest.raises(UnknownPool, match="name='fr-3': pool 'proxies' has no such resource"):
        hold(pool, "fr-3")
    with pytest.raises(UnknownPool, match="there is no such pool"):
        hold(Pool("proxis"), "fr-1")
    with pytest.raises(UnknownPool, match="there is no such pool"):
        Pool("proxis").lease(wait=0, where=french).__enter__()


def test_by_name_when_it_is_given_back(pool: Pool) -> None:
    held = hold(pool, "fr-1")
    thread = start_waiting(pool, name="fr-1")
    wait_until(Waiter.objects.filter(name="fr-1").exists)
    with pool.lease(wait=0) as other, pool.lease(wait=0) as another:  # it holds up no others
        assert {other.name, another.name} == {"de-1", "fr-2"}
    held.end()
    assert thread.result() == "fr-1"


def test_by_payload(pool: Pool) -> None:
    with pool.lease(wait=0, where=french) as first, pool.lease(wait=0, where=french) as second:
        assert [first.name, second.name] == ["fr-1", "fr-2"]
        with pytest.raises(ResourceUnavailable, match="a resource of pool 'proxies' was not available at once"):
            pool.lease(wait=0, where=french).__enter__()
        with pytest.raises(ResourceUnavailable, match=r"within 0\.1 s"):
            pool.lease(wait=0.1, where=french).__enter__()


def test_the_least_recently_used_one_of_them(pool: Pool) -> None:
    names = []
    for _ in range(3):
        with pool.lease(wait=0, where=french) as resource:
            names.append(resource.name)
    assert names == ["fr-1", "fr-2", "fr-1"]


def test_disabled_ones_are_not_among_them(pool: Pool) -> None:
    pool.disable("fr-1")
    with pool.lease(wait=0, where=french) as resource:
        assert resource.name == "fr-2"
    pool.disable("fr-2")
    with pytest.raises(ResourceUnavailable):
        pool.lease(wait=0, where=french).__enter__()


def test_what_it_refuses_is_left_as_it_is(pool: Pool) -> None:
    before = Resource.objects.filter(name="de-1").values().get()
    with pool.lease(wait=0, where=french), pool.lease(wait=0, where=french):
        with pytest.raises(ResourceUnavailable):
            pool.lease(wait=0, where=french).__enter__()
    assert Resource.objects.filter(name="de-1").values().get() == before


def test_what_valid_refuses_of_them_is_put_aside(pool: Pool) -> None:
    with pool.lease(wait=0, where=french, valid=lambda resource: resource.name == "fr-2") as resource:
        assert resource.name == "fr-2"
    assert free_names() == ["de-1", "fr-2"]


def test_what_it_raises_is_passed_on(pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError):
        pool.lease(where=lambda payload: 1 / 0).__enter__()
    assert len(free_names()) == 3


def test_replaced_by_another_one_of_them(pool: Pool) -> None:
    with pool.lease(wait=0, where=french) as resource:
        resource.replace()
        assert resource.name == "fr-2"
        with pytest.raises(ResourceUnavailable):
            resource.replace()
    assert free_names() == ["de-1"]


def before_it_is_taken(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Have a change made between the look at the next resource and its acquisition."""
    take = resources.take

    def change_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        change()
        return take(*arguments)

    monkeypatch.setattr(resources, "take", change_first)


def test_a_payload_that_changes_meanwhile(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    before_it_is_taken(monkeypatch, lambda: pool.add("fr-1", "de"))
    with pool.lease(wait=0, where=french) as resource:
        assert resource.name == "fr-2"
    assert "fr-1" in free_names()


def test_one_that_another_took_first(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    first = row("fr-1")
    take = resources.take
    before_it_is_taken(monkeypatch, lambda: take(ALIAS, (first.pk, first.version), "other", TTL))
    with pool.lease(wait=0, where=french) as resource:
        assert resource.name == "fr-2"


def test_it_fails_at_the_second_asking(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The payload was changed into one that it cannot read: the resource is given back."""
    before_it_is_taken(monkeypatch, lambda: pool.add("fr-1", None))
    with pytest.raises(TypeError):
        pool.lease(wait=0, where=lambda payload: payload[0] == "f").__enter__()
    assert len(free_names()) == 3


@pytest.mark.parametrize("how", ["given back", "added", "changed", "enabled"])
def test_it_waits_and_holds_up_no_other(pool: Pool, how: str) -> None:
    held = [hold(pool, name) for name in ("fr-1", "fr-2")]
    pool.add("es-1", "es")
    pool.add("fr-4", "fr")
    pool.disable("fr-4")
    where = Seeing()
    thread = start_waiting(pool, where=where)
    assert where.was_asked.wait(60)
    for _ in range(3):
        with pool.lease(wait=0):
            pass
    assert not Waiter.objects.exists()
    assert thread.is_alive()
    changes: dict[str, tuple[Callable[[], object], str]] = {
        "given back": (held[0].end, "fr-1"),
        "added": (lambda: pool.add("fr-3", "fr"), "fr-3"),
        "changed": (lambda: pool.add("es-1", "fr"), "es-1"),
        "enabled": (lambda: pool.enable("fr-4"), "fr-4"),
    }
    change, name = changes[how]
    change()
    assert thread.result() == name
    for one in held:
        one.end()


def test_errors_that_pass_are_waited_out(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acquiring, "MAX_PAUSE", 0.01)
    held = [hold(pool, name) for name in ("fr-1", "fr-2")]
    page_after, pages = resources.free_page_after, iter(range(100))

    def fail(*arguments: Any) -> Any:
        number = next(pages)
        if number == 4:
            held[0].end()
        if 1 <= number <= 4:  # all but the first, which is outside of the wait
            raise OperationalError("database is locked")
        return page_after(*arguments)

    monkeypatch.setattr(resources, "free_page_after", fail)
    with pool.lease(wait=60, where=french) as resource:
        assert resource.name == "fr-1"
    assert "the database failed during the wait for a resource of pool 'proxies'" in caplog.text
    held[1].end()


def chooser(where: Where) -> Chooser:
    return Chooser(acquiring.Request(ALIAS, wanted(), TTL, 0), lambda: False, where)


def add_many(count: int) -> None:
    names = [f"es-{number}" for number in range(count)]
    rows = [Resource(pool=POOL, name=name, payload="es", busy_before=clock.EPOCH, version=1) for name in names]
    Resource.objects.bulk_create(rows, batch_size=500)


def test_of_a_pool_of_ten_thousand_each_row_is_read_once(pool: Pool, live_db: str) -> None:
    unit = UNIT.get(live_db, 1)
    add_many(10_000)
    with connection.cursor() as cursor:  # without figures PostgreSQL may sort all of them
        cursor.execute(f"ANALYZE {'TABLE ' * (connection.vendor == 'mysql')}{Resource._meta.db_table}")
    where = Seeing()
    with reads() as first, pool.lease(wait=0, where=where):
        pass
    assert len(where.seen) == 2  # once more when it is held
    assert first.total <= 500 * unit

    with pool.lease(where=french), pool.lease(where=french):
        where = Seeing()
        one = chooser(where)
        begun = clock.monotonic()
        with reads() as all_of_it, pytest.raises(ResourceUnavailable):
            one.acquire()
        assert len(where.seen) == 10_001
        assert all_of_it.total <= 30_000 * unit
        assert one._starts_again_at - begun >= 10_001 / ROWS_A_SECOND

        one._starts_again_at = float("inf")
        with reads() as again, statements() as sent:
            assert one._try(0)[0] is None
        assert (len(where.seen), len(sent)) == (10_001, 2)
        assert again.total <= 200 * unit


def test_what_became_free_at_different_moments_is_read_once(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "LOOK_AHEAD", 3)
    add_many(7)
    for _ in range(5):
        with pool.lease(wait=0):
            pass
    where = Seeing()
    with pool.lease(where=french), pool.lease(where=french):
        assert chooser(where)._try(0)[0] is None
    assert where.seen.count("es") == 7
    assert where.seen.count("de") == 1


async def asynchronous(payload: Any) -> bool:
    return True


@pytest.mark.parametrize(
    "values",
    [{"name": ""}, {"name": 1}, {"where": 1}, {"where": asynchronous}, {"where": french, "name": "fr-1"}],
)
def test_bad_input(pool: Pool, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=f"^{next(iter(values))}="):
        pool.lease(**values)
