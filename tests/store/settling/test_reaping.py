"""Reaping, releasing, and the rows of executors that decide who is dead."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.models import Executor, Task
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import held_by
from django_delayed_tasks.store.settling.reap import SPREAD
from django_delayed_tasks.store.settling.reap import reap as reap_orphans
from django_delayed_tasks.store.settling.settle import settle
from tests.deaths import crash
from tests.store import verbs
from tests.store.verbs import ALIAS, HOUR, NOW

LEASE = timedelta(seconds=15)
MOMENT = timedelta(microseconds=1)


def register(name: str = "one", *, gone: bool = False, **fields: object) -> int:
    identity = executors.Registration(name, "host", 4711, 8, ("b", "a"), **fields)  # type: ignore[arg-type]
    return executors.register(ALIAS, identity, LEASE, lambda host, pid: gone)


def reap() -> list[NextState]:
    return list(reap_orphans(ALIAS, max_rescues=3).values())


def test_an_executor_row(db: None, frozen: None) -> None:
    row = Executor.objects.get(pk=register(queues=("mail", "default")))
    assert (row.name, row.host, row.pid, row.threads) == ("one", "host", 4711, 8)
    assert (row.queues, row.codes, row.alive) == (["default", "mail"], ["a", "b"], True)
    assert (row.started_at, row.heartbeat_at, row.host_time, row.expires_at) == (NOW, NOW, NOW, NOW + LEASE)
    with clock.frozen_at(NOW + MOMENT):
        two = register("two")
    assert Executor.objects.get(pk=two).queues is None
    assert [peer.id for peer in executors.live(ALIAS)] == [row.pk, two]
    assert {peer.codes for peer in executors.live(ALIAS)} == {frozenset("ab")}


def test_a_heartbeat_has_the_time_of_the_hosts_clock(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = register()
    monkeypatch.setattr(clock, "host_now", lambda: datetime.now(UTC) - HOUR)
    assert executors.renew(ALIAS, executor, LEASE)
    row = Executor.objects.get(pk=executor)
    assert row.host_time is not None
    is_the_databases = connections[ALIAS].vendor == "sqlite"
    differs = row.heartbeat_at - row.host_time - (timedelta() if is_the_databases else HOUR)
    assert abs(differs) < timedelta(minutes=1)


def test_a_lease_holds_to_its_last_moment(db: None, frozen: None) -> None:
    executor = register()
    verbs.add()
    verbs.claim(executor=executor)
    with clock.frozen_at(NOW + LEASE):
        assert reap() == []
        assert executors.renew(ALIAS, executor, LEASE)
    with clock.frozen_at(NOW + 2 * LEASE):
        assert reap() == []
    with clock.frozen_at(NOW + 2 * LEASE + MOMENT):
        assert reap() == [NextState.RESCUED]
        assert not executors.renew(ALIAS, executor, LEASE)
        assert not executors.retire(ALIAS, executor)
    assert Executor.objects.get().alive is None


def test_only_the_tasks_of_the_dead(db: None, frozen: None) -> None:
    dead, alive = register("dead"), register("alive")
    for num, executor in {"a": dead, "b": alive, "c": dead}.items():
        verbs.add(num)
        verbs.claim(executor=executor)
    crash(dead)
    assert reap() == [NextState.RESCUED] * 2
    statuses = [verbs.present(num).status for num in "abc"]
    assert statuses == [TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.PENDING]


def test_a_late_claim_of_a_dead_executor_is_found(db: None, frozen: None) -> None:
    """A process that stood still between its SELECT and its UPDATE."""
    dead = register()
    crash(dead)
    assert reap() == []
    verbs.add()
    verbs.claim(executor=dead)
    assert reap() == [NextState.RESCUED]


def claim_when_it_may() -> int:
    """Claim the one task at its claim_at; the attempt."""
    with clock.frozen_at(verbs.present().claim_at):
        return verbs.claim_one().attempts


def test_a_task_that_kills_its_executors_does_not_run_for_ever(db: None, frozen: None) -> None:
    verbs.add()
    for rescues in (1, 2, 3):
        assert claim_when_it_may() == 1
        assert reap() == [NextState.RESCUED]
        assert verbs.present().rescues == rescues
    claim_when_it_may()
    assert reap() == [NextState.FAILED]
    row = verbs.present()
    assert (row.status, row.rescues, "died 4 times" in row.last_error) == (TaskStatus.FAILED, 3, True)
    assert verbs.outcomes() == [RunOutcome.LOST] * 4
    assert verbs.add().action == "replaced"
    assert (verbs.claim_one().rescues, reap()) == (0, [NextState.RESCUED])


def test_what_died_together_twice_is_spread(db: None, frozen: None) -> None:
    for num in "abcdefgh":
        verbs.add(num)
    verbs.claim()
    reap()
    assert {task.claim_at for task in Task.objects.all()} == {clock.host_now()}
    verbs.claim()
    reap()
    moments = {task.claim_at - clock.host_now() for task in Task.objects.all()}
    assert len(moments) > 4
    assert timedelta(0) <= min(moments) < max(moments) <= timedelta(seconds=SPREAD)


def test_a_pass_is_limited(db: None, frozen: None) -> None:
    for num in "abc":
        verbs.add(num)
    verbs.claim()
    assert [len(reap_orphans(ALIAS, 3, limit=2)) for _ in range(3)] == [2, 1, 0]


def test_release_gives_back(db: None, frozen: None) -> None:
    for num in "ab":
        verbs.add(num, NOW - HOUR)
    a, b = sorted(verbs.claim(), key=str)
    assert held_by(ALIAS, verbs.EXECUTOR) == {a.claim, b.claim}
    assert len(settle(ALIAS, [verbs.released(a), verbs.released(b, after=HOUR)]).became) == 2
    assert len(settle(ALIAS, [verbs.released(a)]).became) == 0
    assert len(settle(ALIAS, []).became) == 0
    assert held_by(ALIAS, verbs.EXECUTOR) == set()
    assert (verbs.present("a").claim_at, verbs.present("b").claim_at) == (NOW, NOW + HOUR)
    assert (verbs.claim_one().attempts, verbs.outcomes("a")) == (1, [])


def test_each_executor_holds_its_own(db: None, frozen: None) -> None:
    held = {}
    for executor, num in ((7, "a"), (8, "b")):
        verbs.add(num)
        held[executor] = {verbs.claim_one(executor).claim}
    assert {executor: held_by(ALIAS, executor) for executor in (7, 8, 9)} == held | {9: set()}


@pytest.mark.parametrize("end", ["released", "rescued"])
def test_an_attempt_that_was_not_counted_is_not_given_back(db: None, frozen: None, end: str) -> None:
    """In a row that was changed by other means: a number below zero would keep the others from being settled."""
    for num in "ab":
        verbs.add(num)
    runs = verbs.claim()
    Task._base_manager.filter(biz_num="a").update(attempts=0)
    settled = reap() if end == "rescued" else list(verbs.settle(*map(verbs.released, runs)).values())
    assert len(settled) == 2
    assert set(Task.objects.values_list("status", "attempts")) == {(TaskStatus.PENDING, 0)}


def test_a_name_has_one_live_executor(db: None, frozen: None) -> None:
    first = register()
    with pytest.raises(NameInUse, match="host, process 4711"):
        register()
    with clock.frozen_at(NOW + LEASE + MOMENT):
        second = register()
        third = register(gone=True)  # its process is known to have ended: no waiting for the lease
    assert len({first, second, third}) == 3
    assert [peer.id for peer in executors.live(ALIAS)] == [third]


def test_an_id_that_another_executor_has_is_not_given_again(live_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = register("one")
    ids = iter([first, first, 2**52 - 1])
    monkeypatch.setattr(executors, "new_id", lambda: next(ids))
    assert register("two") == 2**52 - 1


def test_a_successor_takes_over_at_once(db: None, frozen: None) -> None:
    verbs.add()
    verbs.claim(executor=register())
    register(gone=True)
    assert reap() == [NextState.RESCUED]


def test_ended_rows_are_purged_the_oldest_first(db: None, frozen: None) -> None:
    ended = {name: register(name) for name in "abcde"}
    for moment, name in enumerate("cabed"):
        with clock.frozen_at(NOW + moment * MOMENT):
            executors.retire(ALIAS, ended[name])
    alive = register()

    def left() -> str:
        return "".join(Executor.objects.filter(alive=None).order_by("name").values_list("name", flat=True))

    assert (executors.purge_ended(ALIAS, NOW, 2), left()) == (0, "abcde")
    assert (executors.purge_ended(ALIAS, NOW + 4 * MOMENT, 2), left()) == (2, "bde")
    assert (executors.purge_ended(ALIAS, NOW + 4 * MOMENT, 3), left()) == (2, "d")
    assert Executor.objects.get(alive=True).pk == alive
