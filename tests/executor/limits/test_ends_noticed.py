"""What ends in this process is noticed at once by those that wait, and leaves nothing behind."""

from collections.abc import Callable

import pytest
from django.db import OperationalError

from django_delayed_tasks import TaskRun
from django_delayed_tasks.executor.limits import permits
from django_delayed_tasks.leases.pool import LeasedResource, Pool
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import RunOutcome
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add, executing, handler_of
from tests.store import verbs
from tests.waiting import wait_until

Later = Callable[[float], None]


def test_a_run_that_ends_lets_the_next_one_in(transactional_db: None) -> None:
    """This is a whole executor, which would poll by itself in a minute."""
    seen: list[str] = []
    handler_of(lambda task: seen.append(task.biz_num), max_concurrent=1)
    with executing(threads=4, poll_interval=60.0):
        add_some(3)
        wait_until(lambda: len(seen) == 3)
    assert seen == ["0", "1", "2"]


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


def test_what_fails_without_a_run_has_still_to_be_settled(bench: LanesBench) -> None:
    """It is counted, too: an executor whose settler is stuck claims no more."""
    limited(max_concurrent=1, concurrency_key=lambda self, task: 1 / 0)
    add_some(3)
    bench.poller.poll()
    bench.lanes.tick()
    assert (bench.capacity.unfinished, len(bench.held)) == (0, 3)
    assert len(bench.failed) == 3


def test_one_statement_looks_at_the_slots_of_some_keys_only(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a hundred keys may have a hundred slots; the next look is at others."""
    monkeypatch.setattr(permits, "MAX_SLOTS", 5)
    limited(max_concurrent=2, concurrency_key=lambda self, task: task.biz_num)
    add_some(8)
    for _ in range(3):
        bench.turn()
    assert sorted(bench.numbers) == [str(number) for number in range(8)]


@pytest.mark.parametrize("seconds", [29.0, 31.0])
def test_a_rate_is_looked_after_twice_a_minute(bench: LanesBench, later: Later, seconds: float) -> None:
    limited(rate="1/s")
    add_some(1)
    bench.turn()
    Resource.objects.filter(pool__startswith="ddt.starts.").delete()
    later(seconds)
    bench.lease.renew()
    add_some(1, prefix="next ")
    bench.turn()
    assert Resource.objects.filter(pool__startswith="ddt.starts.").exists() is (seconds > 30)


def test_free_slots_are_remembered(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no other executor takes them, no statement looks for them."""
    limited(max_concurrent=2)
    add_some(4)
    bench.turn()
    for number in ("0", "1"):
        bench.end_run(number, verbs.done(bench.run_of(number)))
    monkeypatch.setattr(permits, "free_slots", lambda *arguments: pytest.fail("it looked"))
    bench.tick()
    assert bench.numbers == ["2", "3"]


def test_a_remembered_slot_may_be_taken(bench: LanesBench, make_bench: Callable[..., LanesBench]) -> None:
    limited(max_concurrent=1)
    add("0")
    bench.turn()
    bench.end_run("0", verbs.done(bench.run_of("0")))
    bench.tick()
    other = make_bench("other")
    add_some(2, prefix="next ")
    other.turn()
    assert other.numbers == ["next 0"]
    for _ in range(3):
        bench.turn()
    assert bench.numbers == []
    assert Task.objects.count() == 2
