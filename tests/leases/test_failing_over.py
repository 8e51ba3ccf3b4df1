"""A holder that dies or stands still: a standby takes over within the ttl and a second."""

import signal
from datetime import datetime, timedelta

import pytest

from django_delayed_tasks.leases import MutexLease, ResourceUnavailable, mutex
from django_delayed_tasks.models import Resource
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import database_now
from tests.processes.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

TTL = 2.0
LIMIT = timedelta(seconds=TTL + 1)


def holder(start: Start, name: str = "index", ttl: float = TTL, hours: float = 0) -> Child:
    child = start("-m", "tests.leases.holder", name, str(ttl), *([str(hours)] if hours else []))
    child.wait_for("held")
    return child


def token_of(child: Child) -> int:
    return int(child.output.split()[1])


def take_over(since: datetime, former: int) -> MutexLease:
    """Stand by, and see how long it took."""
    lease = mutex("index", ttl=60, wait=60).__enter__()
    acquired = Resource.objects.get(name="index").acquired_at
    assert acquired is not None
    assert acquired - since <= LIMIT
    assert lease.token == former + 1
    assert lease.state == {"left by": former}
    return lease


def test_after_sigkill(start: Start) -> None:
    child = holder(start)
    child.send(signal.SIGKILL)
    take_over(database_now(), token_of(child)).release()


def test_after_sigstop_the_paused_one_is_refused(start: Start) -> None:
    child = holder(start)
    child.pause()
    lease = take_over(database_now(), token_of(child))
    child.send(signal.SIGCONT)
    child.say("check")
    child.wait_for("check: refused, False")
    child.say("save")
    child.wait_for("save: refused, False")
    lease.check()
    assert Resource.objects.get(name="index").state == {"left by": token_of(child)}
    child.process.communicate(timeout=60)
    assert child.exit_code() == 0
    lease.check()
    lease.release()


@pytest.mark.parametrize("hours", [-30, 30])
def test_a_wrong_clock_of_the_host_changes_nothing(start: Start, live_db: str, hours: float) -> None:
    """It is the clock of the holder's host; on SQLite the host's clock is the only one, and all users share it."""
    child = holder(start, hours=0 if live_db == "sqlite" else hours)
    row = Resource.objects.get(name="index")
    assert row.acquired_at
    assert row.busy_before - database_now() <= timedelta(seconds=TTL)
    wait_until(lambda: Resource.objects.get(name="index").busy_before > row.busy_before)
    with pytest.raises(ResourceUnavailable):
        mutex("index").__enter__()
    child.send(signal.SIGKILL)
    take_over(database_now(), token_of(child)).release()
