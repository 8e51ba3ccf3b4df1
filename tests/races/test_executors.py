"""Which executors are alive: a name has one, and a late heartbeat learns that it is late."""

from datetime import timedelta

import pytest
from django.db import transaction

from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.models import Executor
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.settling.reap import reap
from tests.races.blocking import wait_until_blocked
from tests.store import verbs
from tests.store.verbs import ALIAS
from tests.threads import start_thread

LEASE = timedelta(seconds=15)
ENDS = pytest.mark.parametrize("end", ["commit", "rollback"])


def register() -> int | str:
    identity = executors.Registration("one", "host", 4711, 8, ())
    try:
        return executors.register(ALIAS, identity, LEASE, lambda host, pid: False)
    except NameInUse:
        return "in use"


@pytest.fixture
def late(live_db: str) -> int:
    """An executor whose lease has just run out."""
    executor = register()
    assert isinstance(executor, int)
    executors.renew(ALIAS, executor, timedelta(microseconds=-1))
    return executor


@ENDS
def test_two_register_one_name(live_db: str, end: str) -> None:
    with transaction.atomic():
        register()
        second = start_thread(register)
        wait_until_blocked(second)
        transaction.set_rollback(end == "rollback")
    assert (second.result() == "in use") == (end == "commit")
    assert Executor.objects.filter(alive=True).count() == 1


@ENDS
def test_declared_dead_before_a_heartbeat(late: int, end: str) -> None:
    with transaction.atomic():
        assert [dead.id for dead in executors.declare_expired_dead(ALIAS)] == [late]
        beating = start_thread(lambda: executors.renew(ALIAS, late, LEASE))
        wait_until_blocked(beating)
        transaction.set_rollback(end == "rollback")
    assert beating.result() == (end == "rollback")
    assert [peer.id for peer in executors.live(ALIAS)] == ([late] if end == "rollback" else [])


@ENDS
def test_heartbeat_before_it_is_declared_dead(late: int, end: str) -> None:
    """The reaper sees the renewed lease, and leaves its tasks alone."""
    verbs.add()
    verbs.claim(executor=late)
    with transaction.atomic():
        assert executors.renew(ALIAS, late, LEASE)
        reaping = start_thread(lambda: reap(ALIAS, 3))
        wait_until_blocked(reaping)
        transaction.set_rollback(end == "rollback")
    assert len(reaping.result()) == (0 if end == "commit" else 1)


def test_one_process_declares_it_dead(late: int) -> None:
    """Each of them has seen that its lease ran out."""
    with transaction.atomic():
        assert [dead.id for dead in executors.declare_expired_dead(ALIAS)] == [late]
        other = start_thread(lambda: executors.declare_expired_dead(ALIAS))
        wait_until_blocked(other)
    assert other.result() == []
