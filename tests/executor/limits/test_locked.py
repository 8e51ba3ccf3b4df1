"""Rows that other transactions keep locked, those of a caller or of an executor that was stopped, hold up no others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from django_delayed_tasks.models import Resource, Task
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add
from tests.store import verbs
from tests.store.meters import statements
from tests.threads import in_thread, start_thread

Later = Callable[[float], None]


@pytest.fixture(autouse=True)
def can_leave_out(transactional_db: None) -> None:
    if not connection.features.has_select_for_update_skip_locked:
        pytest.skip("the database has no row locks")


@contextmanager
def locked(rows: Callable[[], "QuerySet[Any]"]) -> Iterator[None]:
    """Rows that another connection keeps locked."""
    is_locked, is_over = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            assert list(rows().select_for_update())
            is_locked.set()
            is_over.wait(60)

    holder = start_thread(hold)
    assert is_locked.wait(60)
    try:
        yield
    finally:
        is_over.set()
        holder.result()


def ticks(bench: LanesBench, later: Later, count: int = 30) -> None:
    """Turn the lanes: each waits for no lock, or this would not end in time."""
    for _ in range(count):
        in_thread(bench.tick)
        later(0.25)
        bench.lease.renew()


def test_a_slot(bench: LanesBench, later: Later) -> None:
    """The others are used, each time one is free."""
    limited(max_concurrent=3)
    add_some(3, prefix="first ")
    bench.turn()
    for number in ("first 0", "first 1", "first 2"):
        bench.end_run(number, verbs.done(bench.run_of(number)))
    bench.lanes.forget()
    add_some(5)
    with locked(lambda: Resource.objects.filter(pool__startswith="ddt.slots.")[:1]):
        bench.poller.poll()
        ticks(bench, later)
        assert len(bench.running) == 2
    ticks(bench, later, 2)
    assert len(bench.running) == 3


def test_a_rate_token(bench: LanesBench, later: Later) -> None:
    limited(rate="3/h")
    add("first")
    bench.turn()
    Resource.objects.update(busy_before="2020-01-01T00:00:00Z")
    add_some(5)
    with locked(lambda: Resource.objects.filter(pool__startswith="ddt.starts.").order_by("id")[:1]):
        bench.poller.poll()
        ticks(bench, later)
        assert len(bench.running) == 1 + 2
    ticks(bench, later, 2)
    assert len(bench.running) == 4


def test_a_task_that_is_to_be_blocked(bench: LanesBench, later: Later) -> None:
    """It is left alone for a while: otherwise one tick would follow the other as long as the caller takes."""
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    add("0", biz_ext="x")
    bench.turn()
    add("1", biz_ext="x")
    add("2", biz_ext="x")
    bench.poller.poll()
    with locked(lambda: Task.objects.filter(biz_num="1")):
        sent = in_thread(lambda: sent_by_a_tick(bench))
        assert len(sent) < 20
        assert in_thread(bench.tick) > 0
        assert set(Task.objects.filter(lane__startswith="~").values_list("biz_num", flat=True)) == {"2"}
    later(2.0)
    bench.lease.renew()
    bench.turn()
    assert Task.objects.filter(lane__startswith="~").count() == 2


def test_the_only_slot_was_locked_for_a_moment(make_bench: Callable[..., LanesBench], later: Later) -> None:
    """No run is going to end, so nothing else would let the tasks in before the next poll."""
    bench = make_bench(poll_interval=60.0)
    limited(max_concurrent=1)
    add("first")
    bench.turn()
    bench.end_run("first", verbs.done(bench.run_of("first")))
    bench.tick()
    add_some(3)
    with locked(lambda: Resource.objects.filter(pool__startswith="ddt.slots.")):
        bench.poller.poll()
        assert in_thread(bench.tick) < 1.0
    later(1.0)
    bench.tick()
    assert bench.numbers == ["0"]


def sent_by_a_tick(bench: LanesBench) -> list[str]:
    with statements() as sent:
        bench.tick()
    return sent


def test_a_blocked_task_whose_key_has_a_permit(make_bench: Callable[..., LanesBench], later: Later) -> None:
    """It is not left to a search for blocked tasks."""
    bench = make_bench(poll_interval=0.2)
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    add("0", biz_ext="x")
    add("1", biz_ext="x")
    bench.turn()
    bench.end_run("0", verbs.done(bench.run_of("0")))
    with locked(lambda: Task.objects.filter(biz_num="1")):
        for _ in range(3):
            assert 0 < in_thread(bench.tick) <= 0.2
    later(1.1)
    bench.lease.renew()
    bench.tick()
    assert bench.numbers == ["1"]
