"""Permits are taken for tasks that find a thread: a task that waits for one keeps permits from other executors."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.limits.room import CLAIMS, WINDOW, ExpectedEnds
from django_delayed_tasks.executor.running.awaited_runs import AwaitedRuns
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.handlers import TaskHandler, register_task_handler
from django_delayed_tasks.leases.pool import Pool
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add
from tests.executor.test_held import OPTIONS, a_task
from tests.store import verbs

MakeBench = Callable[..., LanesBench]
Later = Callable[[float], None]


@pytest.fixture
def busy(make_bench: MakeBench) -> LanesBench:
    """An executor whose two threads run tasks of an unlimited code."""
    bench = make_bench(threads=2)
    limited("other")
    add_some(2, "other", "other ")
    bench.poller.poll()
    assert bench.numbers == ["other 0", "other 1"]
    return bench


@pytest.mark.parametrize("limits", [{"max_concurrent": 5}, {"rate": "5/h"}])
def test_none_for_threads_that_unlimited_runs_hold(busy: LanesBench, later: Later, limits: dict[str, Any]) -> None:
    limited(**limits)
    add_some(3)
    later(0.3)
    busy.lease.renew()
    busy.turn()
    assert Task.objects.filter(biz_code="code", status=TaskStatus.RUNNING).count() == 0
    busy.held.wake_lanes.clear()
    busy.end_run("other 0", verbs.done(busy.run_of("other 0")))
    assert busy.held.wake_lanes.is_set(), "a thread is free"
    busy.tick()
    assert busy.numbers == ["other 1", "0"]


LIMITS: list[dict[str, Any]] = [
    {"max_concurrent": 5},
    {"max_concurrent": 1, "concurrency_key": lambda self, task: task.biz_num},
    {"rate": "5/h"},
    {"pool": "proxies"},
]


@pytest.mark.parametrize("limits", LIMITS, ids=["slots", "keys", "rate", "pool"])
@pytest.mark.parametrize("priority", [0, 1])
def test_one_waits_for_a_thread_that_would_run_another_task(
    make_bench: MakeBench, later: Later, limits: dict[str, Any], priority: int
) -> None:
    """Threads that are never idle, since unlimited tasks were claimed ahead for them, run it next."""
    Pool("proxies").add("a")
    bench = make_bench(threads=2)
    bench.poller.claim_size._target = 10  # runs have been short
    limited("other")
    add_some(20, "other", "other ")
    bench.poller.poll()
    assert [next_number(bench), next_number(bench)] == ["other 0", "other 1"]
    limited(**limits)
    add_some(3, priority=priority)
    later(0.3)
    bench.lease.renew()
    bench.turn()
    assert bench.queue.permitted == 1, "no more of them than find a thread"
    assert next_number(bench) == "0"


def next_number(bench: LanesBench) -> str:
    """Return the number of the task that the next thread takes."""
    running = bench.queue.get()
    assert running
    return running.tasks[0].biz_num


def test_the_lanes_sleep_while_no_task_of_theirs_lacks_a_thread(busy: LanesBench) -> None:
    limited(max_concurrent=1)
    busy.turn()
    busy.held.wake_lanes.clear()
    busy.end_run("other 0", verbs.done(busy.run_of("other 0")))
    assert not busy.held.wake_lanes.is_set()


def test_a_queue_that_was_paused_while_no_thread_was_free(busy: LanesBench, later: Later) -> None:
    """The poller has no room, but reads for the lanes what is due and what is paused."""
    limited(max_concurrent=5)
    add_some(3)
    later(0.3)
    busy.lease.renew()
    busy.turn()
    api.pause_queue("default")
    later(0.3)
    busy.poller.poll()
    busy.end_run("other 0", verbs.done(busy.run_of("other 0")))
    busy.tick()
    assert busy.numbers == ["other 1"]


def test_a_more_urgent_task_that_waits_for_a_thread_comes_first(busy: LanesBench, later: Later) -> None:
    limited(max_concurrent=5)
    add_some(3)
    add("urgent", "other", priority=1)
    later(0.3)
    busy.lease.renew()
    busy.turn()
    busy.end_run("other 0", verbs.done(busy.run_of("other 0")))
    busy.tick()
    assert busy.numbers == ["other 1"]
    busy.turn()
    assert busy.numbers[:2] == ["other 1", "urgent"]


@pytest.fixture
def on_loop() -> Callable[..., None]:
    """Registers an async handler with limits."""

    def register(code: str, **limits: Any) -> None:
        async def handle(self: TaskHandler, task: Task) -> None:
            raise AssertionError("the bench runs nothing")

        register_task_handler(type("OnLoop", (TaskHandler,), {"biz_code": code, "handle": handle, **limits})())

    return register


def test_the_loop_has_room_while_more_urgent_tasks_wait_for_threads(
    busy: LanesBench, on_loop: Callable[..., None]
) -> None:
    """They need no thread, as those of an async code without limits need none."""
    on_loop("limited", max_concurrent=5)
    on_loop("plain")
    add("waits for a thread", "other")
    add("1", "limited", priority=-1)
    add("2", "plain", priority=-1)
    busy.turn()
    assert sorted(busy.awaited.numbers) == ["1", "2"]
    assert busy.numbers == ["other 0", "other 1"]


def test_threads_are_free_while_more_urgent_tasks_wait_for_the_loop(
    make_bench: MakeBench, on_loop: Callable[..., None]
) -> None:
    bench = make_bench(threads=2, async_concurrency=1)
    on_loop("plain")
    on_loop("limited", max_concurrent=5)
    limited(max_concurrent=5)
    add("1", "plain")
    bench.turn()
    add("2", "plain")
    add("0", "code", priority=-1)
    add("3", "limited", priority=-1)
    bench.turn()
    assert (bench.awaited.numbers, bench.numbers) == (["1"], ["0"])
    bench.finish(bench.awaited.batches[0])
    bench.tick()
    assert bench.awaited.numbers == ["1"], "the more urgent task comes first"
    bench.turn()
    assert bench.awaited.numbers == ["1", "2"]


@pytest.mark.parametrize("ends_on_loop", [True, False])
def test_runs_on_the_loop_hand_slots_on_if_many_of_them_end(
    bench: LanesBench, on_loop: Callable[..., None], later: Later, ends_on_loop: bool
) -> None:
    """Those that end in threads say nothing of them."""
    on_loop("limited", max_concurrent=1)
    limited("other")
    for number in range(4):
        add(str(number), "limited")
        add(f"other {number}", "other")
    bench.turn()
    assert (bench.awaited.numbers, len(bench.numbers)) == (["0"], 4)
    for _ in range(2):
        bench.lanes.room.note_claim(1.0)
        bench.held.finish([task.claim for task in (bench.awaited.batches[0] if ends_on_loop else bench.running)])
        later(0.1)
        bench.tick()
    lane = bench.lanes.get("limited")
    assert lane
    assert len(lane.stock) == (3 if ends_on_loop else 0)


def test_of_tasks_that_wait_for_a_thread(make_bench: MakeBench) -> None:
    """Those that were claimed already count."""
    bench = make_bench(threads=2)
    limited(max_concurrent=5)
    add_some(5)
    bench.poller.poll()
    for _ in range(2):
        bench.lanes.tick()
    assert len(bench.queue) == bench.queue.permitted == 2


def test_threads_take_turns() -> None:
    """Between tasks with permits and all others, however many of these were claimed before."""
    queue = a_queue()
    queue.put(a_task(number) for number in range(5))
    queue.put_permitted(a_task(number) for number in (10, 11))
    taken = [run.tasks[0].id for _ in range(7) if (run := queue.get())]
    assert taken == [10, 0, 11, 1, 2, 3, 4]


def test_a_higher_priority_comes_first_in_both_kinds() -> None:
    queue = a_queue()
    queue.put(a_task(number) for number in range(2))
    queue.put_permitted([a_task(10), replace(a_task(11), priority=1)])
    queue.put([replace(a_task(2), priority=2)])
    taken = [run.tasks[0].id for _ in range(5) if (run := queue.get())]
    assert taken == [10, 11, 0, 1, 2]


def test_a_lower_priority_is_not_overtaken_by_what_is_queued_later() -> None:
    """Its permits would be held, and the lanes would claim nothing else, for as long as a flow of others goes on."""
    queue = a_queue()
    queue.put([replace(a_task(0), priority=1)])
    queue.put_permitted([a_task(10), replace(a_task(11), priority=2)])
    queue.put(replace(a_task(number), priority=1) for number in (1, 2))
    taken = [run.tasks[0].id for _ in range(5) if (run := queue.get())]
    assert taken == [0, 10, 11, 1, 2]


def test_of_one_kind_alone() -> None:
    queue = a_queue()
    queue.put_permitted(a_task(number) for number in range(3))
    assert [run.tasks[0].id for _ in range(3) if (run := queue.get())] == [0, 1, 2]


def a_queue() -> RunQueue:
    held = Held(OPTIONS)
    return RunQueue(held, AwaitedRuns(OPTIONS, held))


def test_as_many_more_as_runs_end_during_a_claim(later: Later) -> None:
    later(0.0)
    held = Held(OPTIONS)
    expected = ExpectedEnds(lambda: held.work_done[0])
    for _ in range(50):
        expected.note_claim(0.01)
    assert expected.count == 0
    held._work_done = 100, 0.5
    later(WINDOW)
    assert expected.count == pytest.approx(CLAIMS * 100 / WINDOW * 0.01, abs=1)
    later(WINDOW)
    assert expected.count == 0, "the threads are busy with long runs now"


def test_it_forgets_no_rate_between_two_looks(later: Later) -> None:
    """However often it is asked."""
    later(0.0)
    held = Held(OPTIONS)
    expected = ExpectedEnds(lambda: held.work_done[0])
    for _ in range(50):
        expected.note_claim(0.01)
    for number in range(1, 200):
        held._work_done = number * 10, 0.5
        later(0.01)
        assert expected.count <= CLAIMS * 1000 * 0.01
    assert expected.count == pytest.approx(CLAIMS * 1000 * 0.01, abs=1)


def test_what_waits_for_a_thread_in_vain_is_released(make_bench: MakeBench) -> None:
    bench = make_bench(threads=2)
    limited(max_concurrent=2)
    add_some(2)
    bench.poller.poll()
    bench.lanes.tick()
    taken = bench.queue.take_back_stalled(-1.0)
    bench.held.release(taken)
    bench.settle()
    assert {task.status for task in Task.objects.all()} == {TaskStatus.PENDING}
    bench.turn()
    assert bench.numbers == ["0", "1"]
