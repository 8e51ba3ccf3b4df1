"""What the rows of executors say about them: running, stopping, stopped, crashed."""

import logging
from datetime import timedelta

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import ExecutorStatus
from django_delayed_tasks.store import executors
from tests.store.verbs import ALIAS, HOUR, NOW

LEASE = timedelta(seconds=15)
LATER = NOW + HOUR

pytestmark = pytest.mark.usefixtures("db", "frozen")


def register(name: str = "one", gone: bool = False) -> int:
    identity = executors.Registration(name, "vm", 4711, 8, ())
    return executors.register(ALIAS, identity, LEASE, lambda host, pid: gone)


def status(executor: int) -> tuple[bool | None, int | None]:
    row = Executor.objects.get(pk=executor)
    return row.alive, row.status


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def crash_of(name: str = "one", how: str = "crashed") -> str:
    return f"executor {name} {how}: its process 4711 on vm ended, or did not renew its lease"


def test_from_its_start_to_its_end_in_order(caplog: pytest.LogCaptureFixture) -> None:
    executor = register()
    assert status(executor) == (True, ExecutorStatus.RUNNING)
    assert executors.renew(ALIAS, executor, LEASE, ExecutorStatus.STOPPING)
    assert status(executor) == (True, ExecutorStatus.STOPPING)
    assert executors.retire(ALIAS, executor)
    with clock.frozen_at(LATER):
        assert executors.declare_expired_dead(ALIAS) == []
    assert status(executor) == (None, ExecutorStatus.STOPPED)
    assert said(caplog) == []


@pytest.mark.parametrize("before", [ExecutorStatus.RUNNING, None])
def test_a_lease_that_ran_out_is_a_crash(before: ExecutorStatus | None, caplog: pytest.LogCaptureFixture) -> None:
    """Also if an older release wrote the row."""
    executor = register()
    Executor.objects.update(status=before)
    with clock.frozen_at(LATER):
        assert executors.declare_expired_dead(ALIAS) == [(executor, "one", "vm", 4711, before)]
        assert status(executor) == (None, ExecutorStatus.CRASHED)
        assert Executor.objects.get().expires_at == LATER
    assert said(caplog) == [crash_of()]


def test_one_that_ran_out_during_a_stop_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """It was killed because it took too long, or at the same moment."""
    executor = register()
    assert executors.renew(ALIAS, executor, LEASE, ExecutorStatus.STOPPING)
    with clock.frozen_at(LATER):
        executors.declare_expired_dead(ALIAS)
        assert status(executor) == (None, ExecutorStatus.STOPPED)
    assert said(caplog) == [crash_of(how="was cut short as it stopped")]


def test_nor_is_that_of_a_predecessor() -> None:
    first = register()
    assert executors.renew(ALIAS, first, LEASE, ExecutorStatus.STOPPING)
    register(gone=True)
    assert status(first) == (None, ExecutorStatus.STOPPED)


def test_an_executor_does_not_declare_itself_dead() -> None:
    """After a pause of the database its lease has run out, too."""
    first, second = register("first"), register("second")
    with clock.frozen_at(LATER):
        assert [dead.id for dead in executors.declare_expired_dead(ALIAS, but=second)] == [first]
        assert executors.renew(ALIAS, second, LEASE)


def test_a_crash_stays_one(caplog: pytest.LogCaptureFixture) -> None:
    executor = register()
    with clock.frozen_at(LATER):
        executors.declare_expired_dead(ALIAS)
    with clock.frozen_at(LATER + HOUR):
        assert executors.declare_expired_dead(ALIAS) == []
        assert not executors.renew(ALIAS, executor, LEASE)
        assert not executors.retire(ALIAS, executor)
    row = Executor.objects.get()
    assert (row.alive, row.status, row.expires_at) == (None, ExecutorStatus.CRASHED, LATER)
    assert said(caplog) == [crash_of()]


def test_a_predecessor_that_is_gone_crashed(caplog: pytest.LogCaptureFixture) -> None:
    first, second = register(), register(gone=True)
    assert [status(first), status(second)] == [(None, ExecutorStatus.CRASHED), (True, ExecutorStatus.RUNNING)]
    assert said(caplog) == [crash_of()]


def test_a_registration_ends_the_lease_of_its_own_name_if_that_ran_out(caplog: pytest.LogCaptureFixture) -> None:
    """The others may have been kept from renewing theirs by a pause of the database."""
    first, other = register("first"), register("other")
    with clock.frozen_at(LATER):
        register("first")
    assert [status(first), status(other)] == [(None, ExecutorStatus.CRASHED), (True, ExecutorStatus.RUNNING)]
    assert said(caplog) == [crash_of("first")]
