"""Searches for blocked tasks that no executor is going to claim, and what the lanes of changed handlers hold."""

from collections.abc import Callable

import pytest

from django_delayed_tasks.executor.limits import lanes
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.store.sql.lanes import blocked_lane
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add
from tests.store import verbs
from tests.store.meters import statements

MakeBench = Callable[..., LanesBench]
Later = Callable[[float], None]
SOON = 1.3 * lanes.SEARCH_EVERY
KEYS = 60


def by_customer() -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)


def search(bench: LanesBench, later: Later) -> list[str]:
    """The statements of the tick in which the next search is made."""
    later(SOON)
    bench.lease.renew()
    with statements() as sent:
        bench.tick()
    return sent


@pytest.fixture
def busy(make_bench: MakeBench) -> LanesBench:
    """An executor whose runs have the slots of sixty keys, for each of which a task is blocked."""
    by_customer()
    busy = make_bench("busy", threads=2 * KEYS)
    for number in range(2 * KEYS):
        add(f"{number:03}", biz_ext=f"customer {number % KEYS}")
    for _ in range(5):
        busy.turn()
    assert Task.objects.filter(lane__startswith="~").count() == KEYS
    return busy


@pytest.fixture
def waiting(bench: LanesBench, busy: LanesBench) -> LanesBench:
    """Another executor, which has searched once."""
    bench.turn()
    return bench


def test_what_moves_is_only_counted(waiting: LanesBench, later: Later) -> None:
    """Another executor claims it: at the second search the keys have other tasks at their heads."""
    for task in Task.objects.filter(lane__startswith="~"):
        add(task.biz_num + " next", biz_ext=task.biz_ext)
        Task._base_manager.filter(biz_num=task.biz_num + " next").update(lane=task.lane)
        Task._base_manager.filter(pk=task.pk).delete()
    assert len(search(waiting, later)) == 1


def test_what_does_not_move_is_looked_at(busy: LanesBench, waiting: LanesBench, later: Later) -> None:
    verbs.settle(verbs.done(busy.run_of("005")))
    search(waiting, later)
    assert waiting.numbers == [f"{5 + KEYS:03}"]


def test_each_key_is_looked_at_in_turn(busy: LanesBench, waiting: LanesBench, later: Later) -> None:
    """Fifty at once are read in one statement."""
    for number in (3, KEYS - 1):
        verbs.settle(verbs.done(busy.run_of(f"{number:03}")))
    search(waiting, later)
    assert sorted(waiting.numbers) == [f"{3 + KEYS:03}", f"{2 * KEYS - 1:03}"]


def test_a_task_whose_key_has_changed_with_the_code(bench: LanesBench, later: Later) -> None:
    """It waits in the lane of its new key from then on, so that the end of a run of that key lets it in."""
    by_customer()
    add_some(2, biz_ext="x")
    add_some(9, prefix="other ", biz_ext="x")
    Task._base_manager.exclude(biz_num="0").update(lane=blocked_lane("code", "what the key was"))
    bench.turn()
    assert bench.numbers == ["0"]
    search(bench, later)
    bench.tick()
    assert set(Task.objects.exclude(biz_num="0").values_list("lane", flat=True)) == {blocked_lane("code", "x")}
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.tick()
    assert bench.numbers == ["1"]


def test_keys_that_are_no_more(bench: LanesBench, later: Later) -> None:
    """The handler has no ``concurrency_key`` any more."""
    limited(max_concurrent=2)
    add_some(3)
    Task._base_manager.update(lane=blocked_lane("code", "x"))
    bench.turn()
    search(bench, later)
    assert bench.numbers == ["0", "1"]
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.turn()
    assert bench.numbers == ["1", "2"]


def test_a_clock_that_was_set_back(bench: LanesBench, later: Later) -> None:
    """The tokens seem to be held for an hour; no key waits for longer than its rate's period."""
    limited(rate="1/2s", concurrency_key=lambda self, task: task.biz_ext)
    add_some(2, biz_ext="x")
    bench.turn()
    assert bench.numbers == ["0"]
    Resource.objects.filter(pool__startswith="ddt.key-starts.").update(busy_before="2120-01-01T00:00:00Z")
    later(3.0)
    bench.lease.renew()
    bench.turn()
    assert bench.lanes.tick() <= 2.0
    later(40.0)
    bench.lease.renew()
    bench.turn()  # the rate is looked after from time to time
    Resource.objects.filter(pool__startswith="ddt.key-starts.").update(busy_before="2020-01-01T00:00:00Z")
    later(3.0)
    bench.lease.renew()
    bench.turn()
    assert bench.numbers == ["0", "1"]
