"""A process that does not get a mutex learns who has it, whatever happens between its queries."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks.leases import ResourceUnavailable, acquiring, mutex
from django_delayed_tasks.leases.acquiring import TRIES
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import line, resources
from django_delayed_tasks.store.resources.resources import MUTEXES, WantedResource
from tests.store.meters import statements
from tests.store.verbs import ALIAS
from tests.threads import in_thread, start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

WANTED = WantedResource(MUTEXES, "index")
BUSY: dict[str, list[object]] = {
    "sqlite": ["database is locked"],
    "mysql": [1205, "Lock wait timeout exceeded"],
    "postgresql": ["40001"],
}


class Told(list[tuple[str, int, datetime]]):
    """A callback that keeps what a process on standby was told."""

    def __call__(self, *holder: Any) -> None:
        self.append(holder)


@pytest.fixture
def others() -> Any:
    with ExitStack() as stack:
        yield stack


def row() -> Resource:
    return Resource.objects.get(pool=MUTEXES, name="index")


def holder() -> tuple[str, int, datetime]:
    found = row()
    assert found.renewed_at
    return found.host, os.getpid(), found.renewed_at


def test_standby_is_told_who_holds_it() -> None:
    told = Told()
    with mutex("index"), pytest.raises(ResourceUnavailable), mutex("index", on_standby=told):
        pass
    assert told == [holder()]


def test_a_function_on_standby_is_not_called() -> None:
    told = Told()

    @mutex("index", on_standby=told)
    def rebuild() -> int:
        return 1

    with mutex("index"):
        assert rebuild() is None
    assert told == [holder()]
    assert rebuild() == 1


def once_after(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """`act` in another thread when this thread has called ``waiting.<name>`` for the first time."""
    original = getattr(line, name)

    def call(*arguments: Any) -> Any:
        found = original(*arguments)
        monkeypatch.setattr(line, name, original)
        in_thread(act)
        return found

    monkeypatch.setattr(line, name, call)


def test_another_one_makes_and_takes_it_meanwhile(monkeypatch: pytest.MonkeyPatch, others: ExitStack) -> None:
    told = Told()
    once_after(monkeypatch, "queue_view", lambda: others.enter_context(mutex("index")))
    with pytest.raises(ResourceUnavailable, match=r"has it$"), mutex("index", on_standby=told):
        pass
    assert told == [holder()]


def test_another_one_makes_it_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    once_after(monkeypatch, "queue_view", lambda: resources.ensure(ALIAS, WANTED))
    with mutex("index") as lease:
        lease.check()


def test_it_is_given_back_meanwhile(monkeypatch: pytest.MonkeyPatch, others: ExitStack) -> None:
    others.enter_context(mutex("index"))
    once_after(monkeypatch, "queue_view", others.close)
    with mutex("index") as lease:
        lease.check()


def test_it_goes_from_hand_to_hand_meanwhile(monkeypatch: pytest.MonkeyPatch, others: ExitStack) -> None:
    told = Told()
    first = mutex("index")
    first.__enter__()
    once_after(monkeypatch, "queue_view", lambda: first.__exit__(None, None, None))
    once_after(monkeypatch, "holder_of", lambda: others.enter_context(mutex("index")))
    with pytest.raises(ResourceUnavailable, match=r"has it$"), mutex("index", on_standby=told):
        pass
    assert told == [holder()]


def test_it_is_left_to_those_who_wait() -> None:
    told = Told()
    with mutex("index"):
        pass
    place = line.enter(ALIAS, WANTED, timedelta(minutes=1))
    with pytest.raises(ResourceUnavailable, match=r"had it last$"), mutex("index", on_standby=told):
        pass
    assert told == [holder()]
    line.leave(ALIAS, [place])


def test_what_a_callback_raises_is_its_own() -> None:
    def fail(*holder: Any) -> None:
        raise ResourceUnavailable("of another one")

    with mutex("index"), pytest.raises(ResourceUnavailable, match=r"^of another one$"):
        mutex("index", on_standby=fail).__enter__()


def test_no_process_has_ever_had_it() -> None:
    told = Told()
    line.enter(ALIAS, WANTED, timedelta(minutes=1))
    with pytest.raises(ResourceUnavailable, match=r"was not available at once$"), mutex("index", on_standby=told):
        pass
    assert told == []


def test_one_that_is_disabled_is_not_asked_for_without_end() -> None:
    with mutex("index"):
        pass
    assert resources.enable(ALIAS, WANTED, False)
    told = Told()
    with pytest.raises(ResourceUnavailable, match=r"it is disabled$"), mutex("index", on_standby=told):
        pass
    with statements() as sent, pytest.raises(ResourceUnavailable), mutex("index", wait=1, on_standby=told):
        pass
    assert sum("holder" in one and "LIMIT 1" in one for one in sent) <= 2 * (TRIES + 1)
    assert told == []


def test_a_callback_that_fails_is_not_called_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error may be one that passes, as of a database that is busy, and the process keeps waiting."""
    called: list[float] = []
    monkeypatch.setattr(acquiring, "TOLD_AGAIN", 0.3)
    monkeypatch.setattr(acquiring, "MAX_PAUSE", 0.01)

    def fail(*holder: Any) -> None:
        called.append(monotonic())
        if len(called) == 4:
            raise ResourceUnavailable("of the callback")
        if len(called) > 1:
            raise OperationalError(*BUSY[connection.vendor])

    with mutex("index"), pytest.raises(ResourceUnavailable, match=r"^of the callback$"):
        in_thread(lambda: mutex("index", wait=60, on_standby=fail).__enter__())
    assert min(later - earlier for earlier, later in pairwise(called)) > 0.1  # 0.3 from before to before each query


def test_who_has_it_at_the_end() -> None:
    """The error names the last holder, not the one that had it when the waiting began."""
    told = Told()
    with mutex("index"):
        waiting_one = start_thread(lambda: mutex("index", wait=1, on_standby=told).__enter__())
        wait_until(lambda: told)
        Resource.objects.filter(name="index").update(pid=4711)
        with pytest.raises(ResourceUnavailable, match=r"process 4711, has it$"):
            waiting_one.result()
    assert [pid for _, pid, _ in told] == [os.getpid()]


def test_many_at_once() -> None:
    """If many come at the same moment, one has it, and each of the others learns that."""
    told = [Told() for _ in range(6)]

    def ask(one: Told) -> bool:
        try:
            with mutex("index", on_standby=one):
                wait_until(lambda: sum(map(bool, told)) == len(told) - 1)
                return True
        except ResourceUnavailable:
            return False

    threads = [start_thread(lambda one=one: ask(one)) for one in told]  # type: ignore[misc]
    assert sorted(thread.result() for thread in threads) == [False] * 5 + [True]
    assert all(pid == os.getpid() for one in told for _, pid, _ in one)
