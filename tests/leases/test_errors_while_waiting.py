"""A contender in the wait queue gets errors of the database: it waits on, as long as it was to wait."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError

from django_delayed_tasks import clock
from django_delayed_tasks.leases import acquiring, mutex
from django_delayed_tasks.store.resources import line
from django_delayed_tasks.store.resources.resources import WantedResource
from tests.threads import in_thread

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

BUSY = OperationalError("database is locked")
LONG = 600.0
"""Seconds that no test waits."""


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[DatabaseError]:
    """What the next looks of those in the queue raise; those outside of it see what there is."""
    pending: list[DatabaseError] = []
    look: Callable[..., Any] = line.queue_view

    def failing(alias: str, wanted: WantedResource, place: int) -> Any:
        if place != line.LAST and pending:
            raise pending.pop()
        return look(alias, wanted, place)

    monkeypatch.setattr(line, "queue_view", failing)
    return pending


def waited_for(seconds: float) -> float:
    """Wait for a mutex that is held; return for how long that took."""
    begun = clock.monotonic()
    with mutex("wanted", wait=seconds):
        return clock.monotonic() - begun


def test_the_last_error_is_told_when_the_time_is_over(
    errors: list[DatabaseError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquiring, "MAX_PAUSE", LONG)
    errors += [BUSY] * 1000
    with mutex("wanted", ttl=LONG), pytest.raises(OperationalError, match="database is locked"):
        in_thread(lambda: waited_for(0.05))


def test_what_passes_costs_a_pause(errors: list[DatabaseError], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquiring, "MAX_PAUSE", 0.01)
    errors += [BUSY] * 3
    holder = mutex("wanted", ttl=LONG)
    lease = holder.__enter__()

    def then_free(*_: Any) -> None:
        lease.release()

    def wait() -> int:
        with mutex("wanted", wait=LONG, on_standby=then_free) as won:
            return won.token

    assert in_thread(wait) == lease.token + 1
    assert errors == []


def test_what_does_not_pass_is_raised_at_once(errors: list[DatabaseError]) -> None:
    errors.append(DatabaseError("no such table"))
    with mutex("wanted", ttl=LONG), pytest.raises(DatabaseError, match="no such table"):
        in_thread(lambda: waited_for(LONG))
