"""What ends in this process is noticed at once by those that wait here, and leaves nothing behind."""

from collections.abc import Callable

import pytest
from django.db import OperationalError

from django_delayed_tasks import TaskRun
from django_delayed_tasks.executor.limits import gate, permits
from django_delayed_tasks.leases.pool import LeasedResource, Pool
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.executor.limits.parts import GateBench, add_some, attempts, limited
from tests.executor.parts import add, executing, handler_of
from tests.store import verbs
from tests.waiting import wait_until

Later = Callable[[float], None]
MakeBench = Callable[..., GateBench]


def test_the_gate_is_woken_when_something_waits(bench: GateBench) -> None:
    limited(max_concurrent=1)
    add_some(2)
    bench.turn()
    bench.held.wake_gate.clear()
    bench.held.remove([])
    assert bench.held.wake_gate.is_set()


def test_and_left_asleep_when_nothing_does(bench: GateBench) -> None:
    limited(max_concurrent=1)
    add_some(1)
    bench.turn()
    bench.held.wake_gate.clear()
    bench.held.remove([])
    assert not bench.held.wake_gate.is_set()


def test_a_run_that_ends_lets_the_next_one_through(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is a whole executor, whose gate would look by itself in an hour."""
    monkeypatch.setattr(gate, "LOOK_EVERY", (3600.0, 3600.0))
    monkeypatch.setattr(gate, "PATIENCE", 7200.0)
    seen: list[str] = []
    handler_of(lambda task: seen.append(task.biz_num), max_concurrent=1)
    with executing(threads=4):
        add_some(3)
        wait_until(lambda: len(seen) == 3)
    assert sorted(seen) == ["0", "1", "2"]


@pytest.fixture
def unreleasable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of resources that could not be given back: the database was away at that moment."""
    tried: list[str] = []

    def fail(self: LeasedResource) -> bool:
        tried.append(self.name)
        raise OperationalError("gone away")

    monkeypatch.setattr(LeasedResource, "release", fail)
    return tried


def test_a_run_is_settled_although_its_resource_could_not_be_given_back(
    transactional_db: None, unreleasable: list[str]
) -> None:
    """The resource comes back by itself; the task has run, and must not run again."""
    for name in ("a", "b"):
        Pool("proxies").add(name)
    ran: list[str] = []
    handler_of(lambda task: ran.append(task.biz_num), pool="proxies")
    with executing() as executor:
        add("1")
        wait_until(lambda: TaskRun.objects.exists())
        wait_until(lambda: not len(executor.held))
    assert (ran, len(unreleasable)) == (["1"], 1)
    assert verbs.outcomes("1", "code") == [RunOutcome.DONE]
    assert not Task.objects.exists()


def test_what_has_just_come_is_taken_back(bench: GateBench) -> None:
    """The executor ends before the gate has looked once."""
    limited(max_concurrent=1)
    add_some(2)
    bench.poller.poll()
    assert sorted(task.biz_num for task in bench.gate.take_back()) == ["0", "1"]
    assert bench.gate.is_empty
    bench.tick()
    assert bench.numbers == []


def test_an_executor_that_ends_leaves_none_at_its_gate(transactional_db: None) -> None:
    """Released, not rescued: their executor has not died."""
    limited(max_concurrent=1)
    with executing(threads=4) as executor:
        executor._guarding.stop()
        add_some(3)
        wait_until(lambda: Task.objects.filter(status=TaskStatus.RUNNING).count() == 3)
    assert Task.objects.filter(status=TaskStatus.PENDING, rescues=0).count() == 3
    assert attempts() == {0}


def test_what_fails_at_the_gate_has_still_to_be_settled(bench: GateBench) -> None:
    """It is counted, too: an executor whose settler is stuck claims no more."""
    limited(max_concurrent=1, concurrency_key=lambda self, task: 1 / 0)
    add_some(3)
    bench.poller.poll()
    bench.gate.tick()
    assert (bench.held.unfinished, bench.held.unsettled) == (0, 3)
    assert len(bench.failed) == 3


def test_a_slow_rate_is_asked_again_after_a_minute(make_bench: MakeBench, later: Later) -> None:
    """It may have been changed, or reset, by other hands."""
    bench = make_bench(drain=True)
    limited(rate="1/d")
    add_some(2)
    bench.turn()
    bench.tick()
    assert bench.numbers == ["0"]
    Resource.objects.filter(pool__startswith="ddt.starts.").delete()
    later(59.0)
    bench.lease.renew()
    bench.tick()
    assert bench.numbers == ["0"]
    later(2.0)
    bench.lease.renew()
    bench.tick()
    assert bench.numbers == ["0", "1"]


def test_one_statement_looks_at_the_slots_of_some_keys_only(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a hundred keys may have a hundred slots; the next look is at others."""
    monkeypatch.setattr(permits, "MOST_SLOTS", 5)
    limited(max_concurrent=2, concurrency_key=lambda self, task: task.biz_num)
    add_some(8)
    bench.turn()
    assert bench.numbers == ["0", "1", "2"]
    bench.tick()
    assert bench.numbers == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("seconds", [29.0, 31.0])
def test_a_rate_is_looked_after_twice_a_minute(bench: GateBench, later: Later, seconds: float) -> None:
    limited(rate="1/s")
    add_some(1)
    bench.turn()
    Resource.objects.filter(pool__startswith="ddt.starts.").delete()
    later(seconds)
    bench.lease.renew()
    add_some(1, prefix="next ")
    bench.turn()
    assert Resource.objects.filter(pool__startswith="ddt.starts.").exists() is (seconds > 30)
