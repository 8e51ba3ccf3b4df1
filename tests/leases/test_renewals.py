"""What a renewal promises its holders: when it is trusted from, and what becomes of what was given back meanwhile."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks import clock
from django_delayed_tasks.leases import mutex
from django_delayed_tasks.leases import renewer as renewing
from django_delayed_tasks.leases.acquiring import Contender, Request
from django_delayed_tasks.leases.renewer import Place, renewer
from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources import line
from django_delayed_tasks.store.resources.resources import Grant
from tests.leases.rows import TTL, add, force, taken, wanted
from tests.store.verbs import ALIAS
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


class Holder:
    """What the renewer keeps, as it sees it."""

    def __init__(self, grant: Grant, when_renewed: Callable[["Holder"], None] = lambda holder: None) -> None:
        self.alias, self.grant, self.ttl = ALIAS, grant, TTL
        self.kept_until: datetime | None = None
        self.renewed_before = math.inf
        self.begun: list[float] = []
        self.is_lost = False
        self._when_renewed = when_renewed

    def renewed(self, begun: float) -> None:
        self.begun.append(begun)
        self._when_renewed(self)

    def lose(self) -> None:
        self.is_lost = True

    def expire(self) -> None:
        raise AssertionError("it has no end")


@contextmanager
def sent_at() -> Iterator[list[float]]:
    """The monotonic moments at which statements were sent to the database."""
    moments: list[float] = []

    def note(execute: Callable[..., Any], *statement: Any) -> Any:
        moments.append(clock.monotonic())
        return execute(*statement)

    with connection.execute_wrapper(note):
        yield moments


def test_it_is_trusted_from_before_the_database_was_asked() -> None:
    """The database counts from a later moment, so others get the resource after we doubt the lease, not before."""
    add("a")
    holder = Holder(taken())
    with sent_at() as moments:
        renewer.renew(ALIAS, [holder])
    [begun] = holder.begun
    assert begun <= moments[0]


@pytest.mark.parametrize("wait", [0, 60])
def test_so_is_what_was_just_acquired(wait: float) -> None:
    add("a")
    with sent_at() as moments:
        _, _, begun = Contender(Request(ALIAS, wanted(), TTL, wait), lambda: False).acquire()
    assert begun <= moments[0]


def test_a_slow_renewal_does_not_make_a_lease_last_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [clock.monotonic()]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    with mutex("index", ttl=30) as lease:

        def answer_late(execute: Callable[..., Any], *statement: Any) -> Any:
            now[0] += 9
            return execute(*statement)

        begun = now[0]
        with connection.execute_wrapper(answer_late):
            renewer.renew(ALIAS, [lease])
        assert now[0] >= begun + 9
        assert lease.runs_until == begun + 30
        now[0] = begun + 19.9
        assert lease.is_held
        now[0] = begun + 20
        assert not lease.is_held


def test_what_is_dropped_while_it_is_renewed_stays_dropped() -> None:
    """The renewer's thread would renew it for ever, and keep its connection for it."""
    add("a")
    holder = Holder(taken(), renewer.drop)
    renewer.keep(holder)
    renewer.renew(ALIAS, [holder])
    assert holder.begun
    assert holder not in renewer.leases()


def test_a_place_that_is_left_while_it_is_renewed_stays_left() -> None:
    place = Place(ALIAS, line.enter(ALIAS, wanted(), timedelta(seconds=60)))
    renewer.keep(place)

    def leave_first(execute: Callable[..., Any], *statement: Any) -> Any:
        renewer.drop(place)
        return execute(*statement)

    with connection.execute_wrapper(leave_first):
        renewer.renew(ALIAS, [place])
    assert place not in renewer._due


def test_what_was_given_back_before_its_renewal_is_not_called_lost(caplog: pytest.LogCaptureFixture) -> None:
    with mutex("index") as lease:
        assert lease.release()
        renewer.renew(ALIAS, [lease])
    assert "lost" not in caplog.text


def test_what_was_taken_away_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    with mutex("index") as lease, mutex("other") as other:
        force(lease)
        renewer.renew(ALIAS, [lease, other])
        assert (lease.is_held, other.is_held) == (False, True)
        assert renewer.leases() == [other]
    assert caplog.text.count("was lost") == 1


def test_with_its_places_it_sweeps_out_those_of_the_dead() -> None:
    """Places of every process, since no other one would remove those of a dead one."""
    dead = line.enter(ALIAS, wanted(), timedelta(seconds=-60))
    mine = line.enter(ALIAS, wanted("a"), timedelta(seconds=60))
    renewer.renew(ALIAS, [Place(ALIAS, mine)])
    left = list(Waiter.objects.values_list("pk", flat=True))
    assert (dead in left, left) == (False, [mine])


@pytest.fixture
def many_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of a minute are renewed every 0.3 seconds, and a busy machine loses none."""
    monkeypatch.setattr(renewing, "RENEWALS", 200)


@pytest.mark.usefixtures("many_renewals")
def test_a_driver_that_fails_ends_no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may raise anything when it is asked about a connection that is gone."""
    has_failed = Event()
    renew = renewer.renew

    def fail_once(alias: str, due: list[Any]) -> None:
        monkeypatch.setattr(renewer, "renew", renew)
        monkeypatch.setattr(connections[alias], "close", fail_to_close)
        raise OperationalError("gone")

    def fail_to_close() -> None:
        monkeypatch.delattr(connections[ALIAS], "close")
        has_failed.set()
        raise ValueError("of the driver")

    monkeypatch.setattr(renewer, "renew", fail_once)
    with mutex("index", ttl=60):
        renewed_at = Resource.objects.get(name="index").renewed_at
        assert renewed_at
        assert has_failed.wait(60)
        wait_until(lambda: Resource.objects.filter(name="index", renewed_at__gt=renewed_at).exists())


@pytest.mark.usefixtures("many_renewals")
def test_a_connection_that_was_not_opened_to_its_end_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no autocommit, so that the next renewal would begin a transaction that never ends.

    Django tells so of a first connection only: a later one repeats what was set for the one before.
    """
    used, has_failed = [], Event()
    renew, set_autocommit = renewer.renew, BaseDatabaseWrapper.set_autocommit

    def note(alias: str, due: list[Any]) -> None:
        renew(alias, due)
        used.append(connections[alias])

    def fail_once(wrapper: BaseDatabaseWrapper, *args: Any, **kwargs: Any) -> None:
        if wrapper in used and not has_failed.is_set():
            has_failed.set()
            raise OperationalError("not opened to its end")
        set_autocommit(wrapper, *args, **kwargs)

    monkeypatch.setattr(renewer, "renew", note)
    with mutex("index", ttl=60):
        wait_until(lambda: bool(used))
    wait_until(lambda: used[0].connection is None)
    monkeypatch.setattr(BaseDatabaseWrapper, "set_autocommit", fail_once)
    with mutex("index", ttl=60):
        renewed_at = Resource.objects.get(name="index").renewed_at
        assert renewed_at
        assert has_failed.wait(60)
        wait_until(lambda: Resource.objects.filter(name="index", renewed_at__gt=renewed_at).exists())
