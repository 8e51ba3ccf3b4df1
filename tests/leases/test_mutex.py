"""The mutex in one process."""

import os
from datetime import timedelta
from socket import gethostname
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import TaskException
from django_delayed_tasks.leases import LeaseLost, ResourceUnavailable, mutex
from django_delayed_tasks.leases.lease import Lease
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource, Waiter
from django_delayed_tasks.store.resources import resources
from tests.leases.rows import force, later
from tests.store.meters import statements
from tests.store.verbs import ALIAS, NOW
from tests.threads import in_thread, start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]


def row(name: str = "index") -> Resource:
    return Resource.objects.get(pool=resources.MUTEXES, name=name)


def test_one_holder() -> None:
    with mutex("index") as lease:
        lease.check()
        assert lease.is_held
        assert (row().pid, row().version) == (os.getpid(), lease.token)
        expected = rf"mutex 'index' was not available at once: {gethostname()}, process {os.getpid()}, has it"
        with pytest.raises(ResourceUnavailable, match=f"^{expected}$"):
            in_thread(lambda: mutex("index").__enter__())
        with mutex("other"):
            pass
    assert not lease.is_held
    with mutex("index") as again:
        assert again.token == lease.token + 1


def test_it_is_given_back_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), mutex("index"):
        _ = 1 / 0
    with mutex("index"):
        pass


def test_statements() -> None:
    with mutex("index"):
        pass
    with statements() as sent, mutex("index"):
        pass
    assert len(sent) == 4  # look, take, read; release


def test_one_whose_answer_was_lost_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be free only after its ttl."""
    take: Any = resources.take
    lost: list[int] = []

    def lose(alias: str, *given: Any) -> Any:
        granted = take(alias, *given)
        if not lost:
            lost.append(1)
            connections[alias].close()
            raise OperationalError("server has gone away")
        return granted

    monkeypatch.setattr(resources, "take", lose)
    with mutex("index", ttl=600) as lease:
        lease.check()
    with mutex("index", ttl=600) as another:
        assert another.token == lease.token + 1


def test_waiting() -> None:
    is_waiting, has_been = Event(), Event()

    def wait() -> int:
        with mutex("index", wait=60, on_standby=lambda *holder: is_waiting.set()) as lease:
            has_been.set()
            return lease.token

    with mutex("index") as first:
        thread = start_thread(wait)
        assert is_waiting.wait(60)
        assert not has_been.is_set()
    assert thread.result() == first.token + 1


def test_waiting_ends() -> None:
    with mutex("index"), pytest.raises(ResourceUnavailable, match=r"within 0\.2 s"):
        in_thread(lambda: mutex("index", wait=0.2).__enter__())


@pytest.mark.parametrize("wait", [None, 60])
def test_a_thread_does_not_wait_for_itself(wait: float | None) -> None:
    told: list[int] = []
    with mutex("index") as lease:
        with pytest.raises(ResourceUnavailable, match="mutex 'index' is held by this thread"):
            mutex("index", wait=wait, on_standby=lambda host, pid, heartbeat: told.append(pid)).__enter__()
        lease.check()
        force(lease)
        with mutex("index", wait=wait) as other:  # it is free now
            assert other.token > lease.token
    assert told == [os.getpid()]


def test_it_runs_out() -> None:
    with clock.frozen_at(NOW), mutex("index", ttl=10) as lease:
        with later(9.9), pytest.raises(ResourceUnavailable), mutex("index"):
            pass
        with later(10), mutex("index") as other:
            assert other.token > lease.token
            with pytest.raises(LeaseLost, match="mutex 'index' is no longer held"):
                lease.check()
            assert not lease.is_held
            other.check()
        with later(10), pytest.raises(LeaseLost):
            lease.check()


def test_a_lease_is_doubted_before_others_can_have_it() -> None:
    """Renewals fail from now on, while the monotonic clock advances."""
    with mutex("index", ttl=30) as lease:
        begun = clock.monotonic()
        lease.renewed(begun - 19.5)
        assert lease.is_held
        lease.renewed(begun - 20)
        assert not lease.is_held
        lease.check()  # the database knows better


def test_it_is_renewed_in_the_background() -> None:
    with mutex("index", ttl=0.6) as lease:
        first = row().busy_before
        wait_until(lambda: row().busy_before > first)
        wait_until(lambda: lease.is_held)


def test_the_renewer_finds_out_that_it_was_taken_away(caplog: pytest.LogCaptureFixture) -> None:
    with mutex("index", ttl=1) as lease:
        force(lease)
        wait_until(lambda: not lease.is_held)
        wait_until(lambda: lease not in renewer._due)
    wait_until(lambda: "mutex 'index' was lost" in caplog.text)  # said by the renewer's thread, a moment after


def test_the_renewer_continues_after_errors(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Event()
    renew = resources.renew

    def fail_once(*given: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("out of order")
        return renew(*given)

    monkeypatch.setattr(resources, "renew", fail_once)
    with mutex("index", ttl=3):
        first = row().busy_before
        wait_until(lambda: row().busy_before > first)
    assert "out of order" in caplog.text


def test_that_it_was_lost_is_said_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with mutex("index") as lease:
        force(lease)
    assert "mutex 'index' was lost" in caplog.text


def test_what_fails_after_the_taking_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with mutex("index"):
        pass
    with monkeypatch.context() as patched:
        patched.setattr(resources, "details", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError), mutex("index"):
            pass
    with mutex("index"):
        pass


def test_a_callback_that_fails_keeps_nothing() -> None:
    def fail(*holder: Any) -> None:
        raise ZeroDivisionError

    with mutex("index"), pytest.raises(ZeroDivisionError):
        in_thread(lambda: mutex("index", wait=60, on_standby=fail).__enter__())
    assert not Waiter.objects.exists()
    assert not [lease for lease in renewer.leases() if isinstance(lease, Lease) and lease.name == "index"]
    with mutex("index"):
        pass


def test_a_function() -> None:
    seen: list[int] = []

    @mutex("index", ttl=5)
    def rebuild(count: int, *, more: int = 0) -> int:
        """Rebuilds."""
        seen.append(row().version)
        with pytest.raises(ResourceUnavailable), mutex("index"):
            pass
        return count + more

    assert rebuild(1, more=2) == 3
    assert rebuild(2) == 2
    assert seen == [seen[0], seen[0] + 1]
    assert (rebuild.__name__, rebuild.__doc__) == ("rebuild", "Rebuilds.")
    with mutex("index"), pytest.raises(ResourceUnavailable):
        rebuild(1)


def test_not_inside_a_transaction() -> None:
    with transaction.atomic(), pytest.raises(TaskException, match="inside a transaction"), mutex("index"):
        pass
    connection.set_autocommit(False)
    try:
        with pytest.raises(TaskException, match="inside a transaction"), mutex("index"):
            pass
    finally:
        connection.rollback()
        connection.set_autocommit(True)


def test_in_a_forked_child_it_is_the_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    with mutex("index") as lease:
        with monkeypatch.context() as child:
            child.setattr(lease, "_pid", os.getpid() + 1)  # as the child sees it
            assert not lease.is_held
            assert not lease.release()
            with pytest.raises(LeaseLost):
                lease.check()
            lease.state["x"] = 1
            with pytest.raises(LeaseLost):
                lease.save_state()
        assert resources.is_held(ALIAS, lease.grant)
        assert row().state != {"x": 1}


def test_one_object_at_a_time() -> None:
    guard = mutex("index")
    with guard, pytest.raises(RuntimeError, match="already holds the mutex 'index'"), guard:
        pass
    with guard:
        pass


def test_one_object_is_not_for_two_threads() -> None:
    """Not even while it waits: the thread that left first would give back what the other one holds."""
    is_waiting, may_end = Event(), Event()
    guard = mutex("index", wait=60, on_standby=lambda *holder: is_waiting.set())

    def hold() -> None:
        with guard:
            assert may_end.wait(60)

    with mutex("index"):
        thread = start_thread(hold)
        assert is_waiting.wait(60)
        with pytest.raises(RuntimeError, match="or waits for it"):
            guard.__enter__()
    may_end.set()
    thread.result()
    with guard:
        pass


def test_a_disabled_one_is_given_to_no_caller() -> None:
    with mutex("index"):
        pass
    resources.enable(ALIAS, resources.WantedResource(resources.MUTEXES, "index"), False)
    with pytest.raises(ResourceUnavailable), mutex("index"):
        pass


def test_one_that_is_put_aside_is_held_by_none() -> None:
    told: list[int] = []
    with mutex("index") as lease:
        lease.quarantine(timedelta(hours=1))
    with pytest.raises(ResourceUnavailable, match="had it last"):
        mutex("index", on_standby=lambda host, pid, heartbeat: told.append(pid)).__enter__()
    assert told == [os.getpid()]


def test_many_at_once_for_one_that_does_not_exist_yet() -> None:
    tokens: list[int] = []

    def hold() -> None:
        with mutex("index", wait=60) as lease:
            tokens.append(lease.token)

    threads = [start_thread(hold) for _ in range(8)]
    for thread in threads:
        thread.result()
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 8
