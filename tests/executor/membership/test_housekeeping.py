"""Duties that any executor does for all."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F

from django_delayed_tasks import clock
from django_delayed_tasks.executor.membership import reaper
from django_delayed_tasks.executor.membership.housekeeping import Duty, Housekeeping
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.settling.failures import Failures
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus, Then
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.executors import Peer
from django_delayed_tasks.store.records.history import purge
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.failures import Told
from tests.executor.parts import Bench, add, claim, claim_one, registered

pytestmark = pytest.mark.django_db


def housekeeping(bench: Bench, failures: Failures | None = None) -> Housekeeping:
    bench.clock.set(clock.host_now())
    return Housekeeping(bench.options, bench.lease, bench.peers, bench.clock, failures or Told())


def orphan(rescues: int = 0) -> int:
    """The id of a task whose executor has died."""
    executor = registered("dead")
    add("orphan")
    [task] = claim(executor)
    Task.objects.update(rescues=rescues)
    executors.retire("default", executor)
    return task.id


def test_a_dead_executors_task_is_taken(bench: Bench) -> None:
    orphan()
    housekeeping(bench).tick()
    task = Task.objects.get()
    assert (task.status, task.version, task.attempts, task.rescues) == (TaskStatus.PENDING, 2, 0, 1)
    assert TaskRun.objects.get().outcome == RunOutcome.LOST


def test_too_many_rescues_fail_the_task(bench: Bench) -> None:
    orphan(rescues=3)
    failures = Told()
    housekeeping(bench, failures).tick()
    task = Task.objects.get()
    assert task.status == TaskStatus.FAILED
    assert "died 4 times" in task.last_error
    assert [(task.biz_num, error) for task, error in failures.told] == [("orphan", task.last_error)]


def test_an_expired_lease_is_seen_without_polling(bench: Bench, django_assert_num_queries: Any) -> None:
    other = registered("other", lease=5.0)
    add("task")
    claim(other)
    keeper = housekeeping(bench)
    keeper.tick()
    with django_assert_num_queries(0):
        keeper.tick()
    assert Task.objects.get().status == TaskStatus.RUNNING
    moment = Executor.objects.get(id=other).expires_at
    with clock.frozen_at(moment + timedelta(milliseconds=1)):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        keeper.tick()
    assert Task.objects.get().status == TaskStatus.PENDING


def test_a_renewed_lease_is_left_alone(bench: Bench) -> None:
    other = registered("other", lease=5.0)
    keeper = housekeeping(bench)
    keeper.tick()
    with clock.frozen_at(Executor.objects.get(id=other).expires_at + timedelta(milliseconds=1)):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        Executor.objects.filter(id=other).update(expires_at=clock.host_now() + timedelta(seconds=5))
        keeper.tick()
    assert Executor.objects.get(id=other).alive is True


def test_a_clock_that_was_set_back_is_not_asked_again_and_again(bench: Bench, django_assert_num_queries: Any) -> None:
    """While nothing else reads it, since all threads are busy."""
    registered("other", lease=5.0)
    keeper = housekeeping(bench)
    keeper.tick()
    bench.clock.set(clock.host_now() + timedelta(seconds=20))  # as it was before
    keeper.tick()
    with django_assert_num_queries(0):
        assert keeper.tick() > 0.1


def test_rank_and_codes_of_the_others(bench: Bench) -> None:
    registered("other", codes=("theirs",))
    housekeeping(bench).tick()
    assert (bench.peers.among("default"), bench.peers.executors) == ((0, 2), 2)
    assert bench.peers.codes_elsewhere == {"theirs"}


def test_rank_of_one_that_is_not_listed() -> None:
    rank = Peers()
    rank.refresh(9, [peer(1), peer(2)])
    assert rank.among("default") == (0, 1)


def test_rank_among_those_that_serve_the_queue() -> None:
    """What one does not serve is not left to it."""
    rank = Peers()
    rank.refresh(3, [peer(1, "mail"), peer(2), peer(3), peer(4, "mail", "default")])
    assert (rank.among("default"), rank.among("mail"), rank.executors) == ((1, 3), (2, 4), 4)


def peer(executor: int, *queues: str) -> Peer:
    return Peer(executor, frozenset(), clock.host_now(), frozenset(queues) if queues else None)


def test_what_another_serves_is_in_its_row(bench: Bench) -> None:
    registered("other", queues=("mail",))
    housekeeping(bench).tick()
    assert (bench.peers.among("default"), bench.peers.among("mail")) == ((0, 1), (0, 2))


@pytest.mark.parametrize("strange", [5, True, [["a"]], "text", {"a": 1}])
def test_a_strange_row_of_an_executor_stops_nothing(bench: Bench, strange: Any) -> None:
    task_id = orphan()
    Executor.objects.filter(id=registered("strange")).update(queues=strange, codes=strange)
    housekeeping(bench).tick()
    assert bench.peers.among("default")[1] == bench.peers.executors
    assert Task.objects.get(id=task_id).status == TaskStatus.PENDING


def test_no_codes_are_known_at_first() -> None:
    assert Peers().codes_elsewhere == frozenset()


def runs(count: int) -> None:
    for number in range(count):
        add(str(number))
    tasks = claim(registered("writer"))
    settle("default", [Settlement(task.claim, RunOutcome.DONE, Then.GONE) for task in tasks])


def test_purge_deletes_old_history_in_batches() -> None:
    runs(5)
    assert purge("default", timedelta(days=1)) == 0
    with clock.frozen_at(clock.host_now() + timedelta(days=2)):
        assert purge("default", timedelta(days=1), batch_size=3) == 3
        assert purge("default", timedelta(days=1), batch_size=3) == 2
    assert not TaskRun.objects.exists()


def test_purge_stops_at_the_first_young_row() -> None:
    runs(3)
    young = TaskRun.objects.order_by("id")[1]
    TaskRun.objects.exclude(id=young.id).update(finished=clock.host_now() - timedelta(days=3))
    assert purge("default", timedelta(days=1)) == 2
    assert TaskRun.objects.get().id == young.id


def test_keep_history_none_purges_nothing(make_bench: Any) -> None:
    bench = make_bench(keep_history=None)
    runs(2)
    with clock.frozen_at(clock.host_now() + timedelta(days=1000)):
        housekeeping(bench).purge()
    assert TaskRun.objects.count() == 2


def test_long_dead_executors_are_forgotten(bench: Bench) -> None:
    executors.retire("default", registered("gone"))
    with clock.frozen_at(clock.host_now() + timedelta(days=2)):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        housekeeping(bench).purge_dead()
    assert list(Executor.objects.values_list("name", flat=True)) == ["bench"]


def test_claim_one_is_claimed() -> None:
    assert claim_one().attempts == 1


def test_a_duty_that_always_fails_keeps_no_other_from_its_turn(bench: Bench) -> None:
    keeper = housekeeping(bench)
    done: list[str] = []

    def fail() -> bool:
        done.append("failing")
        raise RuntimeError

    def perform() -> bool:
        done.append("other")
        return False

    keeper.add(Duty(0.0, fail))
    keeper.add(Duty(0.0, perform))
    for _ in range(3):
        with suppress(RuntimeError):
            keeper.tick()
    assert done == ["failing", "other", "failing", "other", "failing"]


def test_a_reap_that_always_fails_keeps_no_duty_from_its_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history may have no room for what reaping writes; to purge it would make some."""
    other = registered("other", lease=5.0)
    keeper = housekeeping(bench)
    keeper.look_around()
    done: list[str] = []

    def fail(alias: str, max_rescues: int) -> list[Any]:
        raise OperationalError(1114, "The table is full")

    def perform() -> bool:
        done.append("other")
        return False

    monkeypatch.setattr(reaper, "take_orphans", fail)
    keeper.add(Duty(0.0, perform))
    Executor.objects.filter(id=other).update(expires_at=F("expires_at") - timedelta(seconds=60))
    bench.clock.set(clock.host_now() + timedelta(seconds=60))
    for _ in range(10):
        with suppress(OperationalError):
            keeper.tick()
    assert done
