"""How much is claimed for the threads and for the event loop, when there are handlers of both kinds."""

from typing import Any

import pytest

from django_delayed_tasks import Task, TaskHandler, register_task_handler
from django_delayed_tasks.executor.claiming import due_levels
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.sql.lanes import LOOP
from tests.executor.coroutines import Blocking, Waiting, async_handler_of
from tests.executor.parts import Bench, add, executing, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


async def nothing(task: Any) -> None:
    """Do nothing."""


@pytest.fixture
def bench(make_bench: Any) -> Bench:
    """Two threads, and three runs on the loop, with a handler for each."""
    handler_of(lambda task: None, code="plain")
    async_handler_of(nothing, code="async")
    bench: Bench = make_bench(threads=2, async_concurrency=3)
    return bench


def poll(bench: Bench) -> tuple[list[str], list[str]]:
    """Poll until nothing more is claimed; return the numbers of all tasks for threads, and for the loop."""
    while not bench.poller.poll():
        pass
    return bench.numbers, bench.awaited.numbers


def add_some(code: str, *numbers: int) -> None:
    for number in numbers:
        add(f"{number:02}", code=code)


def test_each_kind_is_claimed_as_far_as_there_is_room_for_it(bench: Bench) -> None:
    add_some("plain", 1, 2, 3, 4)
    add_some("async", 5, 6, 7, 8)
    assert poll(bench) == (["01", "02"], ["05", "06", "07"])
    assert Task.objects.filter(status=TaskStatus.PENDING).count() == 3
    assert (bench.capacity.unfinished, bench.capacity.awaited) == (2, 3)


@pytest.mark.parametrize("full", ["plain", "async"])
def test_the_kind_that_is_full_is_left_and_the_other_is_claimed(bench: Bench, full: str) -> None:
    add_some(full, *range(10))
    before = poll(bench)
    add_some({"plain": "async", "async": "plain"}[full], 20)
    after = poll(bench)
    assert sorted(after[0] + after[1]) == sorted([*before[0], *before[1], "20"])


def test_what_ends_makes_room_for_its_kind(bench: Bench) -> None:
    add_some("plain", *range(5))
    add_some("async", *range(10, 15))
    plain, on_loop = poll(bench)
    bench.finish(bench.awaited.batches[0])
    assert poll(bench) == (plain, [*on_loop, "13"])
    bench.finish(bench.delivered[:1], seconds=10.0)
    assert poll(bench) == ([*plain, "02"], [*on_loop, "13"])


def test_what_found_no_room_still_comes_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it finds room before the agenda is read again."""
    monkeypatch.setattr(due_levels, "FRESH", 600.0)
    add_some("plain", 1, 2)
    poll(bench)
    add("10", code="plain", priority=10)
    for number in ("80", "81", "82"):
        add(number, code="async", priority=8)
    add("05", code="plain", priority=5)
    bench.poller.poll()
    assert bench.awaited.numbers == ["80", "81", "82"]
    bench.finish(bench.delivered[:1])
    bench.poller.poll()
    assert bench.numbers == ["01", "02", "10", "05"]


def test_max_tasks_is_the_sum_of_both(make_bench: Any, bench: Bench) -> None:
    other = make_bench(name="other", threads=2, async_concurrency=9, max_tasks=5)
    add_some("async", *range(9))
    add_some("plain", *range(10, 12))
    for _ in range(5):
        other.poller.poll()
    assert len(other.numbers) + len(other.awaited.numbers) == 5


def test_a_batch_is_filled_and_takes_one_place(make_bench: Any) -> None:
    async def handle_batch(self: Any, tasks: Any) -> None: ...

    register_task_handler(type("Batched", (TaskHandler,), {"biz_code": "batched", "handle_batch": handle_batch}))
    bench: Bench = make_bench(threads=1, async_concurrency=2)
    add_some("batched", *range(40))
    while not bench.poller.poll():
        pass
    assert [len(batch) for batch in bench.awaited.batches] == [40]
    assert (bench.capacity.awaited, bench.capacity.unfinished, bench.capacity.room_on_loop) == (1, 0, 1)
    bench.finish(bench.awaited.batches[0])
    assert bench.capacity.awaited == 0


def test_claims_of_plain_tasks_are_those_of_a_process_without_async_handlers(make_bench: Any) -> None:
    handler_of(lambda task: None, code="plain")
    without = requests_of(make_bench(name="without", threads=2))
    async_handler_of(nothing, code="async")
    assert requests_of(make_bench(name="with", threads=2)) == without == [("", "default", 2)]


def requests_of(bench: Bench) -> list[tuple[str, str, int]]:
    """Return what a backlog of plain tasks makes the poller ask for."""
    requests: list[tuple[str, str, int]] = []
    usual = bench.poller._claim

    def claim(alias: str, request: ClaimRequest) -> Any:
        requests.append((request.lane, request.queue, request.limit))
        return usual(alias, request)

    bench.poller._claim = claim
    add_some("plain", *range(5))
    assert poll(bench) == (["00", "01"], [])
    Task._base_manager.all().delete()
    return requests


def test_levels_that_give_nothing_are_passed_in_the_same_poll(make_bench: Any) -> None:
    """Other executors have emptied them, or callers have locked their rows: however little room there is."""
    handler_of(lambda task: None, code="plain")
    bench: Bench = make_bench(threads=1)
    usual = bench.poller._claim

    def claim(alias: str, request: ClaimRequest) -> Any:
        return [] if request.priority else usual(alias, request)

    bench.poller._claim = claim
    for number in range(5):
        add(f"{number}", code="plain", priority=10 - number)
    add("last", code="plain")
    bench.poller.poll()
    assert bench.numbers == ["last"]


def test_a_drain_ends_when_nothing_of_either_kind_is_due(make_bench: Any, bench: Bench) -> None:
    drain: Bench = make_bench(name="draining", threads=2, async_concurrency=3, drain=True)
    add_some("plain", *range(7))
    add_some("async", *range(10, 15))
    numbers: list[str] = []
    for _ in range(20):
        drain.poller.poll()
        numbers += [*drain.numbers, *drain.awaited.numbers]
        drain.finish([*drain.delivered, *(batch[0] for batch in drain.awaited.batches)], seconds=10.0)
        drain.delivered.clear()
        drain.awaited.batches.clear()
        if drain.poller.drained.is_set():
            break
    assert drain.poller.drained.is_set()
    assert sorted(numbers) == [f"{number:02}" for number in (*range(7), *range(10, 15))]


def test_one_that_was_added_by_a_process_with_another_kind_of_handler_moves_into_its_lane(bench: Bench) -> None:
    """As during a deploy that turns a handler into a coroutine, or back: no attempt is counted."""
    add_some("plain", 1)
    add_some("async", 2)
    Task._base_manager.filter(biz_code="plain").update(lane=LOOP)
    Task._base_manager.filter(biz_code="async").update(lane="")
    assert poll(bench) == ([], [])
    bench.settle()
    assert poll(bench) == (["01"], ["02"])
    assert set(Task.objects.values_list("attempts", flat=True)) == {1}


class TestWaking:
    @pytest.fixture
    def held(self, bench: Bench) -> Any:
        add_some("plain", *range(4))
        add_some("async", *range(10, 15))
        poll(bench)
        bench.capacity.plain.wake.clear()
        return bench.held

    def test_by_the_end_of_a_run_on_the_loop(self, bench: Bench, held: Any) -> None:
        held.end([bench.awaited.batches[0][0].claim], ())
        assert held.capacity.plain.wake.is_set()

    def test_not_by_what_makes_no_room(self, bench: Bench, held: Any) -> None:
        """There are more than enough for the threads: each poll would read the head of the queue in vain."""
        bench.capacity.room()
        add_some("plain", 20)
        held.add(tasks := [task for task in bench.delivered if task.biz_num == "00"])
        bench.finish(bench.awaited.batches[0])
        held.capacity.plain.wake.clear()
        held.remove(task.claim for task in tasks)
        assert not held.capacity.plain.wake.is_set()

    def test_a_new_task_is_worth_a_look_while_the_loop_has_room(self, bench: Bench, held: Any) -> None:
        assert not held.capacity.has_room
        bench.finish(bench.awaited.batches[0])
        assert held.capacity.has_room


@pytest.mark.django_db(transaction=True)
class TestInAWholeExecutor:
    def test_async_runs_do_not_wait_for_threads(self) -> None:
        blocking = Blocking()
        handler_of(blocking.handle, code="plain")
        async_handler_of(nothing, code="async")
        add_some("plain", *range(5))
        add_some("async", *range(10, 30))
        with executing(threads=2):
            wait_until(lambda: not Task.objects.filter(biz_code="async").exists())
            assert len(blocking.begun) == Task.objects.filter(status=TaskStatus.RUNNING).count() == 2
            blocking.go_on()
            wait_until(lambda: not Task.objects.exists())

    def test_nor_threads_for_async_runs(self) -> None:
        waiting = Waiting(code="async")
        handler_of(lambda task: None, code="plain")
        add_some("async", *range(10))
        add_some("plain", *range(10, 30))
        with executing(async_concurrency=3):
            wait_until(lambda: not Task.objects.filter(biz_code="plain").exists())
            wait_until(lambda: len(waiting.begun) == 3)
            assert Task.objects.filter(status=TaskStatus.RUNNING).count() == 3
            waiting.go_on()
            wait_until(lambda: not Task.objects.exists())


@pytest.mark.parametrize(("full", "other"), [("plain", "async"), ("async", "plain")])
def test_a_run_that_ends_wakes_the_poller_while_tasks_of_its_kind_wait(bench: Bench, full: str, other: str) -> None:
    """A poll without room for one kind finds none of the other: tasks of the first may still wait."""
    add_some(full, *range(10))
    add_some(other, 20)
    poll(bench)
    bench.capacity.plain.wake.clear()
    bench.finish(bench.awaited.batches[0] if full == "async" else bench.delivered[:1])
    assert bench.capacity.plain.wake.is_set()
