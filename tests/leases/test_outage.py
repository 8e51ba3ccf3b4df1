"""The database is gone for a while: for less, and for more, than the ttl of what is held."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from pytest_django import DjangoDbBlocker

from django_delayed_tasks.leases import LeaseLost, Pool, mutex
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource
from tests.leases.rows import make_due
from tests.processes.outages import Outage, ServerKilled, private_database
from tests.threads import DatabaseThread, start_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.per_database

SHORT, LONG = 2.0, 600.0
"""Seconds: one ttl that ends during the outage, and one that does not."""


@pytest.fixture
def outage(database: str, tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Outage]:
    """A database that the test can take away; the usual test database is not touched."""
    with django_db_blocker.unblock(), private_database(database, tmp_path) as outage:
        renewer.forget()  # its thread's "default" is the usual one
        yield outage
        renewer.forget()


def stand_by(name: str) -> tuple[DatabaseThread[int], Event]:
    """Start a thread that waits for this mutex for ever."""
    is_waiting = Event()

    def wait() -> int:
        with mutex(name, wait=None, on_standby=lambda *holder: is_waiting.set()) as lease:
            return lease.token

    thread = start_thread(wait)
    assert is_waiting.wait(60)
    return thread, is_waiting


def test_what_outlives_it_is_kept_and_the_rest_is_lost(outage: Outage) -> None:
    with mutex("long", ttl=LONG) as kept, mutex("short", ttl=SHORT) as lost:
        threads = {name: stand_by(name)[0] for name in ("long", "short")}
        seen = lost.runs_until
        wait_until(lambda: lost.runs_until > seen)  # the renewer has a connection, and no answer is under way
        outage.begin()
        make_due(kept)
        wait_until(lambda: not lost.is_held)
        assert not Event().wait(SHORT / 2)
        outage.end()

        with pytest.raises(LeaseLost):
            lost.check()
        assert threads["short"].result() == lost.token + 1
        kept.check()
        before = Resource.objects.get(name="long").renewed_at
        make_due(kept)
        wait_until(lambda: Resource.objects.get(name="long").renewed_at != before)
        assert kept.is_held
        assert threads["long"].is_alive()
    assert threads["long"].result() == kept.token + 1


def test_one_that_chooses_by_payload_waits_on(outage: Outage, caplog: pytest.LogCaptureFixture) -> None:
    pool = Pool("proxies")
    pool.add("fr-1", "fr")
    pool.add("de-1", "de")
    asked: list[str] = []

    def where(payload: str) -> bool:
        asked.append(payload)
        return payload == "fr"

    def wait() -> str:
        with pool.lease(wait=None, where=where) as resource:
            return resource.name

    with pool.lease(ttl=LONG, name="fr-1"):
        thread = start_thread(wait)
        wait_until(lambda: len(asked) >= 2)  # the first look is outside of the wait
        outage.begin()
        if isinstance(outage, ServerKilled):
            wait_until(lambda: "the database failed during the wait for a resource of pool" in caplog.text)
        else:
            assert not Event().wait(SHORT / 2)
        outage.end()
        assert thread.is_alive()
    assert thread.result() == "fr-1"
