"""Permits are taken for tasks that find a thread: a task that waits for one keeps permits from other executors."""

from collections.abc import Callable
from typing import Any

import pytest

from django_delayed_tasks import api
from django_delayed_tasks.executor.room.claimer import Kind
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from django_delayed_tasks.leases.pool import Pool
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add
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
    busy.capacity.limited.wake.clear()
    busy.end_run("other 0", verbs.done(busy.run_of("other 0")))
    assert busy.capacity.limited.wake.is_set(), "a thread is free"
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
    bench.capacity.paces[Kind.THREAD].note_end(0.025)  # runs have been short
    limited("other")
    add_some(20, "other", "other ")
    bench.poller.poll()
    assert [next_number(bench), next_number(bench)] == ["other 0", "other 1"]
    limited(**limits)
    add_some(3, priority=priority)
    later(0.3)
    bench.lease.renew()
    bench.turn()
    assert bench.capacity.lines.permitted == 1, "no more of them than find a thread"
    assert next_number(bench) == "0"


def next_number(bench: LanesBench) -> str:
    """Return the number of the task that the next thread takes."""
    running = bench.queue.get()
    assert running
    return running.tasks[0].biz_num


def test_the_lanes_sleep_while_no_task_of_theirs_lacks_a_thread(busy: LanesBench) -> None:
    limited(max_concurrent=1)
    busy.turn()
    busy.capacity.limited.wake.clear()
    busy.end_run("other 0", verbs.done(busy.run_of("other 0")))
    assert not busy.capacity.limited.wake.is_set()


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


def test_nor_is_a_more_urgent_one_with_limits_overtaken(busy: LanesBench, later: Later) -> None:
    """Whichever thread wakes first when a run has ended."""
    limited(max_concurrent=5)
    add("urgent", priority=1)
    add("later", "other")
    later(0.3)
    busy.lease.renew()
    busy.turn()
    busy.end_run("other 0", verbs.done(busy.run_of("other 0")))
    busy.poller.poll()
    assert busy.numbers == ["other 1"]
    busy.capacity.plain.wake.clear()
    busy.tick()
    assert busy.numbers == ["other 1", "urgent"]
    busy.end_run("other 1", verbs.done(busy.run_of("other 1")))
    busy.tick()
    assert busy.capacity.plain.wake.is_set(), "it has been held back, and there are no more urgent ones"
    busy.poller.poll()
    assert busy.numbers == ["urgent", "later"]


@pytest.mark.parametrize("lacks", ["permits", "its queue"])
def test_but_one_that_could_not_run_holds_nobody_up(make_bench: MakeBench, later: Later, lacks: str) -> None:
    bench = make_bench(threads=2)
    limited(max_concurrent=1)
    limited("other")
    add("first", priority=1)
    add("other 0", "other", queue="elsewhere")
    bench.turn()
    bench.turn()
    assert set(bench.numbers) == {"first", "other 0"}
    add("second", priority=1)
    add("other 1", "other", queue="elsewhere")
    if lacks == "its queue":
        api.pause_queue("default")
        bench.end_run("first", verbs.done(bench.run_of("first")))
    else:
        bench.end_run("other 0", verbs.done(bench.run_of("other 0")))
    later(0.3)
    bench.lease.renew()
    bench.turn()
    bench.poller.poll()
    assert "other 1" in bench.numbers


def test_tasks_that_wait_behind_others_do_not_wait_for_ever(make_bench: MakeBench, later: Later) -> None:
    """Each reading shows that more urgent tasks are due; they cannot be claimed, as those of a code that is unknown."""
    bench = make_bench(threads=2)
    limited("other")
    limited(max_concurrent=1)
    add("urgent", priority=1)
    registry.clear()
    limited("other")
    add("0", "other")
    add("1", "other")
    bench.poller.poll()
    assert bench.numbers == []
    bench.tick()
    later(0.3)  # the agenda is old by now
    bench.lease.renew()
    bench.poller.poll()
    assert bench.numbers == ["0", "1"]


def test_priorities_of_both_kinds_in_turn(make_bench: MakeBench) -> None:
    """However much room there is: a task that waits for a more urgent one comes before a less urgent one, too."""
    bench = make_bench(threads=5)
    limited("other")
    limited(max_concurrent=5)
    for code, priority in (("other", 1), ("code", 2), ("code", 0), ("other", -1), ("other", 3)):
        add(f"{priority}", code, priority=priority)
    for _ in range(4):
        bench.turn()
    taken = [run.tasks[0].biz_num for _ in range(5) if (run := bench.queue.get())]
    assert taken == ["3", "2", "1", "0", "-1"]


def test_codes_of_one_priority_share_the_room(make_bench: MakeBench) -> None:
    bench = make_bench(threads=6)
    for code in ("a", "b", "c"):
        limited(code, max_concurrent=10)
        add_some(10, code, code)
    bench.turn()
    assert sorted(number[0] for number in bench.numbers) == ["a", "a", "b", "b", "c", "c"]


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
        bench.capacity.note_claim(1.0)
        bench.held.end([task.claim for task in (bench.awaited.batches[0] if ends_on_loop else bench.running)], ())
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
    assert len(bench.queue) == bench.capacity.lines.permitted == 2


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


def test_those_that_claim_sleep_while_neither_can(make_bench: MakeBench) -> None:
    """A backlog of urgent tasks waits for a thread, and there is room to claim less urgent ones ahead."""
    bench = make_bench(threads=2)
    bench.capacity.paces[Kind.THREAD].note_end(0.005)  # runs have been short
    limited("other")
    limited(max_concurrent=9)
    add_some(9, priority=1)
    add_some(9, "other", "other ")
    taken, wakes = 0, 0
    for _ in range(60):
        if taken < 2 and len(bench.queue) and bench.queue.get():
            taken += 1
        for claimer, turn in ((bench.capacity.plain, bench.poller.poll), (bench.capacity.limited, bench.tick)):
            if claimer.wake.is_set() or wakes < 6:
                claimer.wake.clear()
                wakes += 1
                turn()
    assert wakes < 20
