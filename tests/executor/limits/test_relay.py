"""A run that ends hands its slot on to the next task, in the transaction that settles the run."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_delayed_tasks import api, clock
from django_delayed_tasks.executor.limits import relay as relay_module
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.executor.room.claimer import Demand, Kind
from django_delayed_tasks.executor.settling import settler as settler_module
from django_delayed_tasks.leases.pool import Pool
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import NextState, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import Outpaced
from django_delayed_tasks.store.limits.claiming import claim_in_slots
from django_delayed_tasks.store.settling.settle import SettleResult, Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement, released
from django_delayed_tasks.store.sql.transactions import briefly
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add
from tests.store import verbs
from tests.store.meters import statements

MakeBench = Callable[..., LanesBench]
Later = Callable[[float], None]
How = Callable[[ClaimedTask], Settlement]


@pytest.fixture(autouse=True)
def many_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end so often that tasks are read for the stock."""
    monkeypatch.setattr(Capacity, "expected_ends", lambda self, handler: 4)


def end(bench: LanesBench, *numbers: str, how: How = verbs.done) -> SettleResult:
    """End runs as a worker and the settler do."""
    tasks = [bench.run_of(number) for number in numbers]
    bench.held.end([task.claim for task in tasks], ())
    ended = bench.settler.write([how(task) for task in tasks])
    bench.held.remove(task.claim for task in tasks)
    bench.ended += tasks
    return ended


def running() -> list[str]:
    """What runs according to the database."""
    return list(Task.objects.filter(status=TaskStatus.RUNNING).order_by("id").values_list("biz_num", flat=True))


@pytest.fixture
def full(bench: LanesBench) -> LanesBench:
    """Two slots, both held, and tasks that wait for them."""
    limited(max_concurrent=2)
    add_some(6)
    bench.turn()
    bench.tick()
    assert bench.numbers == ["0", "1"]
    return bench


def test_the_slot_goes_to_the_next_task(full: LanesBench) -> None:
    ended = end(full, "0")
    assert [task.biz_num for task in ended.claimed] == ["2"]
    assert (running(), full.numbers) == (["1", "2"], ["1", "2"])
    assert end(full, "1", "2").became.keys() == {task.claim for task in full.ended[1:]}
    assert (running(), full.numbers) == (["3", "4"], ["3", "4"])
    slots = Resource.objects.filter(pool__startswith="ddt.slots.").values_list("task_id", "task_version")
    assert set(slots) == {task.claim[:2] for task in full.running}


def test_what_it_costs(full: LanesBench) -> None:
    """Next to the settlement: one statement locks, one takes the slots, one claims, however many slots there are."""
    briefly("default", lambda cursor: None)  # it sets a limit for the connection, once
    with statements() as alone:
        settle("default", [verbs.done(full.run_of("1"))], Wait.A_SECOND)
    with statements() as sent:
        end(full, "0")
    assert len(sent) == len(alone) + 3


def test_nothing_is_looked_for_while_slots_are_handed_on(full: LanesBench) -> None:
    with statements() as sent:
        for number in ("0", "1", "2"):
            end(full, number)
            full.lanes.tick()
    assert not [sql for sql in sent if "LEFT JOIN" in sql], "it knows which slots are free"
    assert full.numbers == ["3", "4"]


@pytest.mark.parametrize("how", [verbs.retry, verbs.failed])
def test_of_a_run_that_failed(full: LanesBench, how: How) -> None:
    end(full, "0", how=how)
    assert (running(), full.numbers) == (["1", "2"], ["1", "2"])


def test_not_of_a_claim_that_is_gone(full: LanesBench) -> None:
    """Its slot was free, and another executor may have it."""
    settle("default", [released(full.run_of("0"), timedelta(hours=1))])
    assert end(full, "0").claimed == []
    assert (running(), full.numbers) == (["1"], ["1"])
    full.tick()
    assert len(full.running) == 2


def test_not_a_slot_that_another_executor_has_taken(full: LanesBench, make_bench: MakeBench) -> None:
    """The version of the slot tells, even if nothing else does."""
    before = full.run_of("0")
    settle("default", [released(before)])
    other = make_bench("other")
    other.turn()
    assert len(other.running) == 1
    lane = full.lanes._lanes["code"]
    task, in_slot = lane.stock.take(lambda task: True), lane.runs.in_slot(before.claim)
    assert task
    assert in_slot
    with connection.cursor() as cursor:
        assert claim_in_slots(cursor, "default", task.executor, {task: in_slot.slot}) == []


def test_not_to_a_task_that_has_changed(full: LanesBench) -> None:
    api.cancel_task("code", "2")
    assert end(full, "0").claimed == []
    full.tick()
    assert full.numbers == ["1", "3"], "the slot was free"


def test_not_to_a_task_that_is_too_late(bench: LanesBench) -> None:
    limited(max_concurrent=1, max_lateness=60.0)
    add_some(3)
    bench.turn()
    bench.tick()
    lane = bench.lanes._lanes["code"]
    for task in lane.stock._tasks:
        task.when -= timedelta(hours=1)
    assert not end(bench, "0").claimed


def test_not_in_a_paused_queue(full: LanesBench) -> None:
    api.pause_queue("default")
    full.poller.reader.forget()
    full.poller.poll()
    full.tick()
    assert not end(full, "0").claimed


def test_not_below_the_priority_of_others_that_wait(full: LanesBench) -> None:
    full.capacity.plain.lack((Demand(Kind.THREAD, 1),), 60.0)
    assert not end(full, "0").claimed


def test_not_while_another_code_lacks_threads(make_bench: MakeBench) -> None:
    bench = make_bench(threads=2)
    limited(max_concurrent=2)
    add_some(6)
    bench.turn()
    limited("other", max_concurrent=2)
    add_some(2, "other", "other ")
    bench.capacity.limited.lack((Demand(Kind.THREAD, 0, code="other"),), 60.0)
    assert not end(bench, "0").claimed


def test_no_more_than_find_a_thread(full: LanesBench) -> None:
    full.capacity.most = 0
    assert full.capacity.is_full
    assert not end(full, "0").claimed


@pytest.mark.parametrize("options", [{"drain": True}, {"max_tasks": 3}])
def test_not_where_one_thread_counts_the_claims(make_bench: MakeBench, options: dict[str, Any]) -> None:
    bench = make_bench("counting", **options)
    limited(max_concurrent=2)
    add_some(6)
    bench.poller.poll()
    bench.tick()
    assert not end(bench, bench.numbers[0]).claimed


@pytest.mark.parametrize("limits", [{"rate": "100/m"}, {"pool": "proxies"}])
def test_only_if_a_slot_is_all_that_a_run_needs(bench: LanesBench, limits: dict[str, Any]) -> None:
    if "pool" in limits:
        for name in ("a", "b", "c"):
            Pool("proxies").add(name)
    limited(max_concurrent=1, **limits)
    add_some(3)
    bench.turn()
    bench.tick()
    assert not end(bench, "0").claimed


def test_not_of_a_key(bench: LanesBench) -> None:
    """Only another task of the key may have it."""
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_num[0])
    for number in ("a1", "a2", "b1"):
        add(number)
    bench.turn()
    assert bench.numbers == ["a1", "b1"]
    assert not end(bench, "a1").claimed
    bench.tick()
    assert bench.numbers == ["b1", "a2"]


def test_what_was_read_long_ago_is_read_again(full: LanesBench, later: Later) -> None:
    """A more urgent task may have been added meanwhile."""
    later(0.6)
    full.lease.renew()
    add("urgent", priority=1)
    assert not end(full, "0").claimed
    full.turn()
    assert full.numbers == ["1", "urgent"]


@pytest.mark.parametrize("error", [OperationalError("gone away"), Outpaced()])
def test_an_error_does_not_keep_runs_from_being_settled(
    full: LanesBench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(relay_module, "claim_in_slots", fail)
    task = full.run_of("0")
    assert end(full, "0").became == {task.claim: NextState.GONE}
    assert running() == ["1"]
    monkeypatch.undo()
    full.poller.forget()
    full.lanes.forget()
    full.turn()
    assert full.numbers == ["1", "2"]


def test_a_claim_whose_answer_was_lost_is_released(full: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = settle

    def lose(*arguments: Any) -> SettleResult:
        whole(*arguments)
        raise OperationalError("gone away after the commit")

    monkeypatch.setattr(relay_module, "settle", lose)
    monkeypatch.setattr(settler_module, "settle", lose)
    with pytest.raises(OperationalError):
        end(full, "0")
    monkeypatch.undo()
    assert running() == ["1", "2"]
    assert end(full, "0").became == {}
    full.poller.poll()
    full.settle()
    assert running() == ["1"]
    for _ in range(2):  # the slot that it remembers was taken by that claim
        full.turn()
    assert len(full.running) == 2


def test_a_task_that_was_rescued_is_not_overtaken(bench: LanesBench) -> None:
    """It is not handed a slot, and runs that follow each other would keep the slot from it."""
    limited(max_concurrent=1)
    add_some(6)
    Task._base_manager.filter(biz_num="1").update(rescues=1)
    bench.turn()
    for _ in range(3):
        bench.tick()
        end(bench, *bench.numbers)
    assert not Task.objects.filter(biz_num="1").exists()


def test_nor_is_one_left_that_is_too_late(bench: LanesBench) -> None:
    limited(max_concurrent=1)
    add_some(6)
    bench.turn()
    Task._base_manager.filter(biz_num="1").update(expires_at=clock.EPOCH)
    for _ in range(3):
        bench.tick()
        end(bench, *bench.numbers)
    assert not Task.objects.filter(biz_num="1").exists()
