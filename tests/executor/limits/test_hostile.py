"""Things go wrong at the gate: no task is forgotten there, and no permit kept."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits import gate, permits
from django_delayed_tasks.executor.limits.waiting_room import PER_KEY, PER_ROOM
from django_delayed_tasks.leases.pool import LeasedResource, Pool
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import changed_meanwhile
from tests.executor.limits.parts import GateBench, add_some, limited
from tests.executor.parts import add, executing, handler_of
from tests.store import verbs
from tests.waiting import wait_until


def exits(self: Any, task: Any) -> str:
    if task.biz_num == "bad":
        raise SystemExit(1)
    return "key"


def test_a_key_that_ends_the_process(bench: GateBench) -> None:
    limited(max_concurrent=5, concurrency_key=exits)
    add_some(1)
    add("bad")
    add("last")
    bench.turn()
    assert bench.numbers == ["0", "last"]
    [settlement] = bench.failed
    assert "SystemExit" in settlement.error


def test_a_key_of_a_task_with_a_trigger_that_cannot_be_read(bench: GateBench) -> None:
    limited(max_concurrent=1, max_attempts=1, concurrency_key=lambda self, task: 1 / 0)
    limited("other", max_concurrent=5)
    add("bad")
    add("2", "other")
    Task.objects.filter(biz_num="bad").update(trigger="nonsense")
    bench.turn()
    assert bench.numbers == ["2"]
    assert [settlement.outcome for settlement in bench.failed] == [RunOutcome.FAILED]


def test_an_outage_while_it_looks(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(max_concurrent=2)
    add_some(3)
    bench.poller.poll()

    def fail(*arguments: Any) -> Any:
        raise OperationalError("gone away")

    monkeypatch.setattr(permits, "take_slots", fail)
    for _ in range(2):
        with pytest.raises(OperationalError):
            bench.tick()
    monkeypatch.undo()
    bench.tick()
    assert bench.numbers == ["0", "1"]


def test_an_outage_between_two_permits(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was had is given back."""
    Pool("proxies").add("a")
    limited(max_concurrent=2, pool="proxies", rate="5/h")
    add("1")
    bench.poller.poll()

    def fail(*arguments: Any) -> Any:
        raise OperationalError("gone away")

    monkeypatch.setattr(permits, "take_tokens", fail)
    with pytest.raises(OperationalError):
        bench.tick()
    assert not Resource.objects.filter(pool="proxies").exclude(holder="").exists()
    assert not Resource.objects.exclude(task_id=None).exists()
    monkeypatch.undo()
    bench.tick()
    assert bench.numbers == ["1"]


def test_an_outage_among_resources(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        Pool("proxies").add(name)
    limited(pool="proxies")
    add_some(2)
    bench.poller.poll()
    usual, calls = LeasedResource.acquire, []

    def acquire(self: LeasedResource) -> None:
        calls.append(self)
        if len(calls) == 2:
            raise OperationalError("gone away")
        usual(self)

    monkeypatch.setattr(LeasedResource, "acquire", acquire)
    with pytest.raises(OperationalError):
        bench.tick()
    assert not Resource.objects.exclude(holder="").exists()
    bench.tick()
    assert bench.numbers == ["0", "1"]


def test_an_outage_when_it_is_about_to_let_them_through(
    bench: GateBench, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        Pool("proxies").add(name)
    later(0.0)
    limited(pool="proxies", max_concurrent=1)
    add_some(2)
    bench.turn()
    bench.end_run("0", verbs.done(bench.run_of("0")))
    later(0.3)

    def fail(*arguments: Any) -> Any:
        raise OperationalError("gone away")

    monkeypatch.setattr(gate, "changed_meanwhile", fail)
    with pytest.raises(OperationalError):
        bench.tick()
    assert not Resource.objects.exclude(holder="").exists()
    monkeypatch.setattr(gate, "changed_meanwhile", changed_meanwhile)
    bench.tick()
    assert bench.numbers == ["1"]
    assert Resource.objects.exclude(holder="").count() == 1


def test_taken_back_while_a_resource_is_acquired(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resource is given back: it would otherwise be renewed for ever."""
    Pool("proxies").add("only")
    limited(pool="proxies")
    add("1")
    bench.poller.poll()
    usual = LeasedResource.acquire

    def acquire(self: LeasedResource) -> None:
        bench.gate.take_back()
        usual(self)

    before = set(renewer.leases())  # of other tests, which they may still lose
    monkeypatch.setattr(LeasedResource, "acquire", acquire)
    bench.tick()
    assert bench.numbers == []
    assert not Resource.objects.exclude(holder="").exists()
    assert set(renewer.leases()) <= before


def test_what_is_too_late_uses_up_no_start(bench: GateBench) -> None:
    limited(rate="1/h", max_lateness=1.0)
    add_some(4)
    Task.objects.update(when=clock.host_now() - timedelta(hours=1))
    add("fresh")
    bench.turn()
    assert bench.numbers == ["fresh"]
    assert [settlement.outcome for settlement in bench.failed] == [RunOutcome.EXPIRED] * 4
    assert bench.held.unfinished == 1


def test_what_is_too_late_by_now_uses_up_no_start(bench: GateBench) -> None:
    """It was in time when it came."""
    limited(max_concurrent=1)
    add_some(2)
    bench.turn()
    waiting = [task for task in bench.held.tasks() if task.biz_num == "1"]
    waiting[0].expires_at = clock.host_now() - timedelta(seconds=1)
    bench.tick()
    assert [settlement.outcome for settlement in bench.failed] == [RunOutcome.EXPIRED]
    assert bench.gate.is_empty


def test_one_that_was_rescued_does_not_wait_in_a_process(bench: GateBench) -> None:
    """That process may die, too, which would count as the task's own fault."""
    limited(max_concurrent=1)
    add_some(3)
    Task.objects.filter(biz_num="1").update(rescues=1)
    bench.turn()
    assert bench.numbers == ["0"]
    assert [task.biz_num for task in Task.objects.filter(status=TaskStatus.PENDING)] == ["1"]
    assert verbs.present("1", "code").rescues == 1


def test_those_that_wait_do_not_fill_the_executor(
    make_bench: Callable[..., GateBench], later: Callable[[float], None]
) -> None:
    """The executor claims other tasks however many keys there are."""
    later(0.0)
    bench = make_bench(threads=1, batch_size=5)
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_num)
    limited("other")
    for number in range(PER_ROOM + 20):
        add(f"{number:03}", priority=1)
    bench.turn()
    for _ in range(PER_ROOM + 20):
        bench.held.park([task.claim for task in bench.running])  # as if the thread was free
        bench.poller.poll()
    assert len(bench.held) <= PER_ROOM + 5
    add("behind", "other")
    bench.held.park([task.claim for task in bench.running])
    bench.turn()
    assert "behind" in bench.numbers


def test_a_run_does_not_start_with_a_resource_that_was_lost(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waited for a thread."""
    for name in ("a", "b"):
        Pool("proxies").add(name)
    seen: list[bool] = []
    handler_of(lambda task: seen.append(task.resource.is_held), pool="proxies")
    with executing() as executor:
        usual = executor.queue.put

        def put(tasks: Any) -> None:
            tasks = list(tasks)
            if not seen and not lost:
                for task in tasks:
                    task.resource._lease.lose()
                    lost.append(task)
            usual(tasks)

        lost: list[Any] = []
        monkeypatch.setattr(executor.queue, "put", put)
        add("1")
        wait_until(lambda: seen)
    assert lost
    assert seen == [True]
    assert verbs.outcomes("1", "code") == [RunOutcome.DONE]


def test_keys_turned_away_are_forgotten(bench: GateBench, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(max_concurrent=1, concurrency_key=lambda self, task: task.biz_ext)
    for number in range(3 * PER_KEY):
        add(str(number), biz_ext="one")
    for _ in range(6):
        bench.turn()
    assert bench.gate.crowded() == {"code"}
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now + 10)
    assert bench.gate.crowded() == frozenset()


def test_a_drain_runs_what_was_postponed(transactional_db: None) -> None:
    """The executor that postponed the tasks has ended since."""
    seen: list[str] = []
    handler_of(lambda task: seen.append(task.biz_num), max_concurrent=1)
    add_some(5)
    verbs.settle(*(verbs.released(run, verbs.HOUR) for run in verbs.claim()))
    with executing(drain=True) as executor:
        assert executor.drained.wait(60)
    assert sorted(seen) == ["0", "1", "2", "3", "4"]
