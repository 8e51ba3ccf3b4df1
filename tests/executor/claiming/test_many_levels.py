"""Due tasks are claimed however long the agenda takes to read: once per reading, and from equal levels in turn."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

from django_delayed_tasks import api, clock
from django_delayed_tasks.executor.claiming.agenda_reader import MAX_PAUSE_BUSY
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.agenda import FRESH
from tests.executor.parts import Bench, add, handler_of

pytestmark = pytest.mark.django_db
TICK = 1.0
"""Seconds between two looks at the clock: an agenda is always older than FRESH."""
MakeBench = Callable[..., Bench]


@pytest.fixture
def slow(make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A poller for which a second passes between any two looks at the clock, so that no agenda is fresh."""
    assert TICK > FRESH
    handler_of(lambda task: None)
    seconds = count(clock.monotonic(), TICK)
    monkeypatch.setattr(clock, "monotonic", lambda: next(seconds))
    return make_bench(lease=1e6, batch_size=40, threads=2)


def fill(number: int, queue: str, **fields: object) -> None:
    """Add ``number`` tasks to a queue."""
    api.add_tasks(Task(biz_code="code", biz_num=f"{queue} {i}", queue=queue, **fields) for i in range(number))


def polled(bench: Bench, polls: int) -> list[str]:
    """The numbers of what these polls claim; each run ends before the next poll."""
    before = len(bench.delivered)
    for _ in range(polls):
        bench.finish([task for task in bench.delivered if bench.held.get(task.claim)])
        bench.poller.poll()
    return bench.numbers[before:]


def test_each_reading_is_used(slow: Bench) -> None:
    fill(3, "a")
    fill(3, "b")
    fill(3, "later", when=timedelta(hours=1))
    assert sorted(polled(slow, 2)) == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]
    assert not polled(slow, 3)


def test_a_storm_in_one_queue_holds_up_no_other(slow: Bench) -> None:
    fill(2000, "storm")
    polled(slow, 2)
    fill(1, "calm")
    polls = 0
    while "calm 0" not in slow.numbers:
        polls += 1
        assert polled(slow, 1), "each poll claims something"
        assert polls <= 2
    assert polled(slow, 1)[0].startswith("storm")


def test_a_higher_priority_is_first_at_the_next_poll(slow: Bench) -> None:
    fill(2000, "storm")
    polled(slow, 2)
    add("urgent", priority=9)
    assert polled(slow, 1)[0] == "urgent"


def test_full_scans_are_made_in_a_storm(slow: Bench) -> None:
    """A task that was committed below the watermark of its level is found only by a full scan."""
    fill(2000, "storm")
    slow.poller.reader.scans.note(clock.monotonic(), 0.0)
    polled(slow, 3)
    assert slow.poller.reader.scans.seconds_until_next(is_idle=False) > 0
    late = add("late", queue="storm")
    Task._base_manager.filter(pk=late).update(claim_at=clock.host_now() - timedelta(hours=1))
    most = int(MAX_PAUSE_BUSY / TICK)  # each poll looks at the clock at least once
    assert "late" in polled(slow, most + 1)
