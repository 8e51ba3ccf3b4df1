"""Things go wrong around permits: no task is forgotten, and no permit kept."""

from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from django_delayed_tasks import clock
from django_delayed_tasks.executor.limits import lanes, permits
from django_delayed_tasks.leases.pool import LeasedResource, Pool
from django_delayed_tasks.leases.renewer import renewer
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import RunOutcome
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add, executing, handler_of
from tests.store import verbs
from tests.waiting import wait_until


def exits(self: Any, task: Any) -> str:
    if task.biz_num == "bad":
        raise SystemExit(1)
    return "key"


def test_a_key_that_ends_the_process(bench: LanesBench) -> None:
    limited(max_concurrent=5, concurrency_key=exits)
    add_some(1)
    add("bad")
    add("last")
    bench.turn()
    assert bench.numbers == ["0", "last"]
    [settlement] = bench.failed
    assert "SystemExit" in settlement.error


def test_a_key_of_a_task_with_a_trigger_that_cannot_be_read(bench: LanesBench) -> None:
    limited(max_concurrent=1, max_attempts=1, concurrency_key=lambda self, task: 1 / 0)
    limited("other", max_concurrent=5)
    add("bad")
    add("2", "other")
    Task._base_manager.filter(biz_num="bad").update(trigger="nonsense")
    bench.turn()
    assert bench.numbers == ["2"]
    assert [settlement.outcome for settlement in bench.failed] == [RunOutcome.FAILED]


def test_an_outage_while_it_looks(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(max_concurrent=2)
    add_some(3)
    bench.poller.poll()

    def fail(*arguments: Any) -> Any:
        raise OperationalError("gone away")

    monkeypatch.setattr(permits, "free_slots", fail)
    for _ in range(2):
        with pytest.raises(OperationalError):
            bench.tick()
    monkeypatch.undo()
    bench.tick()
    assert bench.numbers == ["0", "1"]


def test_an_outage_between_two_permits(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was had is given back."""
    Pool("proxies").add("a")
    limited(max_concurrent=2, pool="proxies", rate="5/h")
    add("1")
    bench.poller.poll()

    def fail(*arguments: Any) -> Any:
        raise OperationalError("gone away")

    monkeypatch.setattr(permits, "free_tokens", fail)
    with pytest.raises(OperationalError):
        bench.tick()
    assert not Resource.objects.filter(pool="proxies").exclude(holder="").exists()
    assert not Resource.objects.exclude(task_id=None).exists()
    monkeypatch.undo()
    bench.tick()
    assert bench.numbers == ["1"]


def test_an_outage_among_resources(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_an_outage_while_it_claims(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        Pool("proxies").add(name)
    limited(pool="proxies", max_concurrent=1)
    add("0")
    bench.poller.poll()

    def fail(*arguments: Any) -> Any:
        raise OperationalError("gone away")

    before = set(renewer.leases())  # of other tests, which they may still lose
    monkeypatch.setattr(lanes, "claim_chosen", fail)
    with pytest.raises(OperationalError):
        bench.tick()
    bench.lanes.forget()
    assert not Resource.objects.exclude(holder="").exists()
    assert set(renewer.leases()) <= before
    monkeypatch.undo()
    bench.turn()
    assert bench.numbers == ["0"]
    assert Resource.objects.exclude(holder="").count() == 1


def test_what_is_too_late_uses_up_no_start(bench: LanesBench) -> None:
    limited(rate="1/h", max_lateness=1.0)
    add_some(4)
    Task._base_manager.update(when=clock.host_now() - timedelta(hours=1))
    add("fresh")
    bench.turn()
    assert bench.numbers == ["fresh"]
    assert [settlement.outcome for settlement in bench.failed] == [RunOutcome.EXPIRED] * 4
    assert bench.capacity.unfinished == 1


def test_a_task_that_a_caller_has_locked_holds_up_no_other(bench: LanesBench) -> None:
    """Where the database can leave locked rows out."""
    limited(max_concurrent=2)
    add_some(3)
    bench.poller.poll()
    if not connection.features.has_select_for_update_skip_locked:
        pytest.skip("the database waits for locked rows")
    with transaction.atomic():
        Task.objects.select_for_update().get(biz_num="0")
        ticking = Thread(target=in_thread, args=(bench.tick,))
        ticking.start()
        ticking.join(10)
        assert bench.numbers == ["1", "2"]


def in_thread(work: Callable[[], object]) -> None:
    try:
        work()
    finally:
        connection.close()


def test_a_run_does_not_start_with_a_resource_that_was_lost(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waited for a thread."""
    for name in ("a", "b"):
        Pool("proxies").add(name)
    seen: list[bool] = []
    handler_of(lambda task: seen.append(task.resource.is_held), pool="proxies")
    with executing() as executor:
        usual = executor.queue.put_permitted

        def put(tasks: Any) -> None:
            tasks = list(tasks)
            if not seen and not lost:
                for task in tasks:
                    task.resource._lease.lose()
                    lost.append(task)
            usual(tasks)

        lost: list[Any] = []
        monkeypatch.setattr(executor.queue, "put_permitted", put)
        add("1")
        wait_until(lambda: seen)
    assert lost
    assert seen == [True]
    assert verbs.outcomes("1", "code") == [RunOutcome.DONE]
