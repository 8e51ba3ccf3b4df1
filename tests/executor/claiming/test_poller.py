"""One iteration of the poller: what it claims, in which order, and when it looks again."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.room.claimer import Kind
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.affinity import share_of
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settle import settle
from tests.executor.parts import Bench, add, handler_of, registered

pytestmark = pytest.mark.django_db


def database_now() -> datetime:
    return read_agenda("default").now


def test_claims_what_is_due_and_nothing_else(bench: Bench) -> None:
    handler_of(lambda task: None)
    add("due")
    add("later", when=timedelta(hours=1))
    bench.poll_all()
    assert bench.numbers == ["due"]
    assert Task.objects.get(biz_num="later").status == TaskStatus.PENDING


def test_higher_priority_first_then_the_longest_wait(bench: Bench) -> None:
    handler_of(lambda task: None)
    for num, priority in (("low", -5), ("middle 1", 0), ("high", 7), ("middle 2", 0)):
        add(num, priority=priority)
    bench.poll_all()
    assert bench.numbers == ["high", "middle 1", "middle 2", "low"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"queues": ("a", "b")}, {"in a", "in b"}),
        ({"exclude_queues": ("a",)}, {"in b", "in c"}),
        ({"queues": ("a", "b"), "exclude_queues": ("a",)}, {"in b"}),
    ],
)
def test_serves_its_queues_only(make_bench: Any, options: dict[str, Any], expected: set[str]) -> None:
    handler_of(lambda task: None)
    for queue in "abc":
        add(f"in {queue}", queue=queue)
    bench = make_bench(**options)
    bench.poll_all()
    assert set(bench.numbers) == expected


def test_sleeps_until_the_next_task_is_due_and_not_past_it(bench: Bench) -> None:
    handler_of(lambda task: None)
    moment = database_now()
    with clock.frozen_at(moment):
        add("soon", when=timedelta(milliseconds=70))
        assert bench.poller.poll() == pytest.approx(0.07)
    with clock.frozen_at(moment + timedelta(milliseconds=69)):
        assert bench.poller.poll() == pytest.approx(0.001)
        assert bench.numbers == []
    with clock.frozen_at(moment + timedelta(milliseconds=70)):
        assert bench.poller.poll() == 0
    assert bench.numbers == ["soon"]


def test_sleeps_one_interval_at_most(bench: Bench) -> None:
    handler_of(lambda task: None)
    assert bench.poller.poll() == bench.options.poll_interval
    add("far", when=timedelta(days=1))
    assert bench.poller.poll() == bench.options.poll_interval


def test_claims_no_more_than_the_threads_can_start(make_bench: Any) -> None:
    handler_of(lambda task: None)
    for number in range(10):
        add(str(number))
    bench = make_bench(threads=3)
    bench.poller.poll()
    assert len(bench.delivered) == 3
    assert bench.poller.poll() == bench.options.poll_interval
    assert len(bench.delivered) == 3


def test_prefetches_for_fast_handlers_and_not_for_slow_ones(make_bench: Any) -> None:
    handler_of(lambda task: None)
    for number in range(100):
        add(str(number))
    bench = make_bench(threads=2)
    bench.poller.poll()
    bench.finish(list(bench.delivered), seconds=5.0)
    bench.poller.poll()
    assert len(bench.delivered) == 4
    for _ in range(20):
        for _ in range(100):
            bench.capacity.paces[Kind.THREAD].note_end(0.0001)
        bench.capacity.room()
    bench.finish(bench.delivered[-2:], seconds=0.0001)
    bench.poller.poll()
    assert len(bench.delivered) > 40


def test_claims_nothing_while_the_lease_is_in_doubt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    handler_of(lambda task: None)
    add("due")
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now + 11)
    assert bench.poller.poll() == bench.options.poll_interval
    assert bench.delivered == []


def test_asks_soon_whether_the_lease_is_renewed_however_rarely_it_polls(
    make_bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing wakes it when it may claim again."""
    bench = make_bench(poll_interval=3600.0)
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now + 11)
    assert bench.poller.poll() <= 1.0


def test_max_tasks_is_exact(make_bench: Any) -> None:
    handler_of(lambda task: None)
    for number in range(5):
        add(str(number))
    bench = make_bench(max_tasks=3)
    bench.poll_all()
    assert len(bench.delivered) == 3


def test_max_tasks_ends_soon_after_the_last_settlement_however_rarely_it_polls(make_bench: Any) -> None:
    """The end of the last run wakes the poller; its settlement, which comes later, does not."""
    handler_of(lambda task: None)
    add()
    bench = make_bench(max_tasks=1, poll_interval=3600.0)
    bench.poller.poll()
    assert not bench.poller.drained.is_set(), "what was claimed has yet to be run"
    [claim] = [task.claim for task in bench.delivered]
    bench.held.end([claim], ())
    assert bench.poller.poll() < 1.0
    bench.held.remove([claim])
    bench.poller.poll()
    assert bench.poller.drained.is_set()


class TestUnknownCodes:
    def test_are_released_untouched_and_not_claimed_again_at_once(self, bench: Bench) -> None:
        add("strange", code="unknown", when=timedelta(seconds=-30))
        before = Task.objects.values("attempts", "status", "when", "biz_ext").get()
        registered("other", codes=("unknown",))
        bench.peers.refresh(bench.lease.executor, executors.live("default"))
        bench.poller.poll()
        settle("default", bench.released)
        assert bench.delivered == []
        assert Task.objects.values("attempts", "status", "when", "biz_ext").get() == before
        assert read_agenda("default").due()
        bench.poller.forget()
        bench.poller.poll()
        assert len(bench.released) == 1
        assert Task.objects.get().version == 2

    def test_that_no_executor_knows_are_postponed(self, bench: Bench) -> None:
        add("strange", code="unknown")
        bench.poller.poll()
        settle("default", bench.released)
        task = Task.objects.get()
        assert (task.status, task.attempts) == (TaskStatus.PENDING, 0)
        assert timedelta(seconds=50) < task.claim_at - task.when < timedelta(seconds=70)

    def test_are_logged_once_if_no_executor_knows_them(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        registered("other", codes=("theirs",))
        bench.peers.refresh(bench.lease.executor, executors.live("default"))
        for code in ("strange", "strange too", "theirs"):
            for num in "12":
                add(num, code=code)
        bench.poll_all()
        lines = [record.getMessage() for record in caplog.records if "has a handler for" in record.getMessage()]
        assert sorted(line.partition("has a handler for ")[2].partition(";")[0] for line in lines) == [
            "'strange too'", "'strange'",
        ]  # fmt: skip
        where = "in task_handlers.py of an installed app or by TASK_HANDLERS, and starttask has to be restarted"
        assert all(where in line for line in lines)

    def test_do_not_keep_others_waiting(self, bench: Bench) -> None:
        handler_of(lambda task: None)
        for number in range(30):
            add(f"strange {number}", code="unknown")
        add("known")
        bench.poll_all()
        assert "known" in bench.numbers


def test_a_claim_whose_answer_was_lost_is_released(bench: Bench) -> None:
    handler_of(lambda task: None)
    add("lost")
    claim = strategy_for("default", "auto")
    claim("default", ClaimRequest(bench.lease.executor, "default", 0, 10))
    bench.poller.forget()  # as after the error that such a claim ends with
    bench.poller.poll()
    settle("default", bench.released)
    task = Task.objects.get()
    assert (task.status, task.attempts, task.version) == (TaskStatus.PENDING, 0, 2)


def test_claims_in_flight_are_not_taken_for_lost(bench: Bench) -> None:
    handler_of(lambda task: None)
    add("running")
    bench.poller.poll()
    bench.poller.forget()
    bench.poller.poll()
    assert bench.released == []


def test_the_next_of_a_level_is_known_after_the_first_was_claimed(make_bench: Any) -> None:
    """The emptied level's next task may be due long before the next poll."""
    bench = make_bench(threads=1, poll_interval=5.0)
    handler_of(lambda task: None)
    moment = database_now()
    with clock.frozen_at(moment):
        add("first")
        add("second", when=timedelta(seconds=1))
        assert bench.poller.poll() == 5.0  # the only thread is taken
        bench.finish(bench.delivered[-1:])
        assert bench.poller.poll() == pytest.approx(1.0)


def test_a_storm_in_one_queue_leaves_room_for_another(make_bench: Any) -> None:
    bench = make_bench(threads=8)
    handler_of(lambda task: None)
    for number in range(100):
        add(f"storm {number}")
    Task._base_manager.update(claim_at=database_now() - timedelta(seconds=10))
    add("other", queue="other")
    bench.poller.poll()
    bench.finish(list(bench.delivered))
    bench.poller.poll()
    assert "other" in bench.numbers


def test_two_executors_share_by_their_places(make_bench: Any) -> None:
    handler_of(lambda task: None)
    for number in range(40):
        add(str(number))
    bench = make_bench(claim="compare_and_set")
    registered("other")
    bench.peers.refresh(bench.lease.executor, executors.live("default"))
    bench.poller.poll()
    assert {share_of(task.id, 2) for task in bench.delivered} == {0}
