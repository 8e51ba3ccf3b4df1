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
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.models import Executor, Success, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.executors import Peer
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.deaths import crash
from tests.executor.failure_reports import Told
from tests.executor.parts import Bench, add, claim, claim_one, registered

pytestmark = [pytest.mark.django_db, pytest.mark.per_database]


def housekeeping(bench: Bench, failures: FailureReports | None = None) -> Housekeeping:
    bench.clock.set(clock.host_now())
    return Housekeeping(bench.options, bench.lease, bench.peers, bench.clock, failures or Told())


def orphan(rescues: int = 0) -> int:
    """The id of a task whose executor has died."""
    executor = registered("dead")
    add("orphan")
    [task] = claim(executor)
    Task._base_manager.update(rescues=rescues)
    crash(executor)
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
    assert bench.peers.can_run("theirs", "default")
    assert not bench.peers.can_run("ours", "default")


def test_rank_of_one_that_is_not_listed() -> None:
    peers = Peers()
    peers.refresh(9, [peer(1), peer(2)])
    assert peers.among("default") == (0, 1)


def test_rank_among_those_that_serve_the_queue() -> None:
    """What one does not serve is not left to it."""
    peers = Peers()
    peers.refresh(3, [peer(1, "mail"), peer(2), peer(3), peer(4, "mail", "default")])
    assert (peers.among("default"), peers.among("mail"), peers.executors) == ((1, 3), (2, 4), 4)


def peer(executor: int, *queues: str) -> Peer:
    return Peer(executor, clock.EPOCH, frozenset(), clock.host_now(), frozenset(queues) if queues else None)


@pytest.mark.parametrize("other", [{"queues": ("mail", "default")}, {}])
@pytest.mark.parametrize("excluded", [(), ("default",)])
def test_what_another_serves_is_in_its_row(bench: Bench, other: Any, excluded: tuple[str, ...]) -> None:
    registered("other", codes=("theirs",), exclude_queues=excluded, **other)
    housekeeping(bench).tick()
    assert bench.peers.among("mail") == (0, 2)
    assert bench.peers.among("default") == ((0, 1) if excluded else (0, 2))
    assert bench.peers.can_run("theirs", "mail")
    assert bench.peers.can_run("theirs", "default") == (not excluded)


def test_an_executor_says_what_it_excludes(make_bench: Any) -> None:
    make_bench(exclude_queues=("slow", "mail"))
    row = Executor.objects.get()
    assert (row.queues, row.exclude_queues) == (None, ["mail", "slow"])


def test_the_row_of_an_older_release_excludes_nothing(bench: Bench) -> None:
    Executor.objects.filter(id=registered("other")).update(exclude_queues=None, status=None)
    housekeeping(bench).tick()
    assert bench.peers.among("default") == (0, 2)


@pytest.mark.parametrize("strange", [5, True, [["a"]], "text", {"a": 1}])
def test_a_strange_row_of_an_executor_stops_nothing(bench: Bench, strange: Any) -> None:
    task_id = orphan()
    rows = Executor.objects.filter(id=registered("strange"))
    rows.update(queues=strange, codes=strange, exclude_queues=strange)
    housekeeping(bench).tick()
    assert bench.peers.among("default")[1] == bench.peers.executors
    assert Task.objects.get(id=task_id).status == TaskStatus.PENDING


def test_no_codes_are_known_at_first() -> None:
    assert not Peers().can_run("code", "default")


def runs(count: int) -> None:
    for number in range(count):
        add(str(number))
    tasks = claim(registered("writer"))
    settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE) for task in tasks])


def test_keep_history_none_purges_nothing(make_bench: Any) -> None:
    bench = make_bench(keep_history=None)
    runs(2)
    with clock.frozen_at(clock.host_now() + timedelta(days=1000)):
        keeper = housekeeping(bench)
        keeper.refresh_retention()
        keeper.purge()
    assert TaskRun.objects.count() == 2


@pytest.mark.parametrize("keep_history", [timedelta(days=7), None])
def test_an_executor_is_kept_for_as_long_as_a_run_may_name_it(make_bench: Any, keep_history: timedelta | None) -> None:
    bench = make_bench(keep_history=keep_history)
    runs(2)
    executors.retire("default", Executor.objects.get(name="writer").pk)
    executors.retire("default", registered("stopped later"))
    with clock.frozen_at(clock.host_now() + timedelta(days=30)):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        housekeeping(bench).purge_ended()
        assert Executor.objects.count() == 3
        TaskRun.objects.update(finished=clock.host_now())
        housekeeping(bench).purge_ended()
    assert list(Executor.objects.values_list("name", flat=True)) == ["bench"]


def test_without_a_history_an_executor_is_kept_for_a_day(bench: Bench) -> None:
    executors.retire("default", registered("gone"))
    for days, left in ((0.9, ["bench", "gone"]), (1.1, ["bench"])):
        with clock.frozen_at(clock.host_now() + timedelta(days=days)):
            executors.renew("default", bench.lease.executor, timedelta(seconds=15))
            housekeeping(bench).purge_ended()
        assert list(Executor.objects.order_by("name").values_list("name", flat=True)) == left


def test_a_run_that_was_reaped_late_still_has_its_executor(bench: Bench) -> None:
    """No executor was alive for a month: the run was recorded long after the lease had run out."""
    add("orphan")
    claim(registered("killed"))
    with clock.frozen_at(clock.host_now() + timedelta(days=30)):
        executors.renew("default", bench.lease.executor, timedelta(seconds=15))
        keeper = housekeeping(bench)
        keeper.reap()
        keeper.purge_ended()
    assert TaskRun.objects.get().executor == Executor.objects.get(name="killed").pk


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
    keeper.refresh_peers()
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


def test_a_success_ahead_of_its_time_does_not_slow_the_purge(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed, the next batch follows soon, and it is deleted when its time has come."""
    monkeypatch.setattr("django_delayed_tasks.executor.membership.housekeeping.MAX_PURGED", 4)
    now = clock.host_now()
    for number, ago in enumerate((-30, 9, 9, 9, 9, 9, 9, 0)):
        Success.objects.create(biz_code="code", biz_num=str(number), succeeded_at=now - timedelta(days=ago))
    keeper = housekeeping(make_bench(once_retention=timedelta(days=7)))
    assert [keeper.purge_successes() for _ in range(3)] == [True, False, False]
    assert list(Success.objects.order_by("biz_num").values_list("biz_num", flat=True)) == ["0", "7"]
    with clock.frozen_at(now + timedelta(days=38)):
        keeper.refresh_retention()
        while keeper.purge_successes():
            pass
    assert not Success.objects.exists()
