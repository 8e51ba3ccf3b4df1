"""Tasks that were running when executors died do not run at the same time."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from django_delayed_tasks import clock
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.suspects import SUSPECT
from tests.executor.parts import Bench, add, claim, executing, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def handler() -> Any:
    return handler_of(lambda task: None)


def add_rescued(*nums: str, rescues: int = SUSPECT) -> None:
    for num in nums:
        add(num)
    Task._base_manager.filter(biz_num__in=nums).update(rescues=rescues)


def test_one_is_run_along_with_all_others(bench: Bench) -> None:
    add("fresh")
    add_rescued("a", "b", "c")
    bench.poller.poll()
    assert bench.numbers == ["fresh", "a"]
    assert set(Task.objects.filter(status=TaskStatus.PENDING).values_list("biz_num", flat=True)) == {"b", "c"}


def test_none_while_one_is_held(bench: Bench) -> None:
    add_rescued("a")
    bench.poller.poll()
    add_rescued("b")
    add("fresh")
    bench.poller.poll()
    assert bench.numbers == ["a", "fresh"]
    assert bench.released == []
    assert Task.objects.get(biz_num="b").version == 0, "it was there for a moment"


def test_the_next_when_that_one_has_ended(bench: Bench) -> None:
    add_rescued("a")
    bench.poller.poll()
    bench.finish(bench.delivered)
    add_rescued("b")
    bench.poller.poll()
    assert bench.numbers == ["a", "b"]


def test_however_long_that_one_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may crash its process at any time; other processes take the others."""
    now = clock.monotonic()
    add_rescued("a")
    bench.poller.poll()
    add_rescued("b")
    monkeypatch.setattr(clock, "monotonic", lambda: now + 7200.0)
    bench.lease.renew()
    bench.poller.poll()
    assert bench.numbers == ["a"]


@pytest.mark.parametrize(("first", "then"), [(SUSPECT, 1), (1, SUSPECT)])
@pytest.mark.parametrize("are_together", [True, False])
def test_none_beside_one_that_was_rescued_once(bench: Bench, first: int, then: int, are_together: bool) -> None:
    """That one has crashed a process as often as it can have, so far."""
    add_rescued("a", rescues=first)
    if not are_together:
        bench.poller.poll()
    add_rescued("b", rescues=then)
    add("fresh")
    bench.poller.poll()
    assert bench.numbers == ["a", "fresh"]
    bench.finish(bench.delivered)
    bench.poller.poll()
    assert bench.numbers == ["a", "fresh", "b"]


def test_nor_beside_one_of_a_limited_handler(bench: Bench) -> None:
    handler_of(lambda task: None, code="limited", max_concurrent=5)
    add_rescued("a")
    bench.poller.poll()
    for num in ("b", "c"):
        add(num, code="limited")
    Task.objects.filter(biz_num="b").update(rescues=SUSPECT)
    bench.poller.poll()
    bench.lanes.tick()
    assert set(bench.numbers) == {"a", "c"}


def test_after_the_first_rescue_all_continue_at_once(bench: Bench) -> None:
    add_rescued("a", "b", "c", rescues=SUSPECT - 1)
    bench.poller.poll()
    assert bench.numbers == ["a", "b", "c"]
    assert bench.released == []


@pytest.mark.parametrize(("rescues", "started"), [(0, ["a", "b"]), (1, ["a"])])
def test_the_last_rescue_makes_one(make_bench: Any, rescues: int, started: list[str]) -> None:
    bench = make_bench(max_rescues=1)
    add_rescued("a", "b", rescues=rescues)
    bench.poller.poll()
    assert bench.numbers == started


def test_where_none_is_allowed_fresh_ones_are_none(make_bench: Any) -> None:
    """MAX_RESCUES was lowered to 0; one that was rescued before is run alone still."""
    bench = make_bench(max_rescues=0)
    add("fresh")
    add_rescued("a", "b", rescues=1)
    add("fresh too")
    bench.poller.poll()
    assert bench.numbers == ["fresh", "a", "fresh too"]
    add("later")
    bench.poller.poll()
    assert bench.numbers == ["fresh", "a", "fresh too", "later"]


def test_a_drain_does_one_after_the_other_and_leaves_none_behind(make_bench: Any) -> None:
    bench = make_bench(drain=True)
    add_rescued("a", "b", "c")
    for so_far in (["a"], ["a", "b"], ["a", "b", "c"]):
        poll_until(bench, lambda: len(bench.numbers) == len(so_far))  # noqa: B023
        assert bench.numbers == so_far
        assert not bench.poller.drained.is_set()
        bench.finish(bench.delivered[-1:])
    poll_until(bench, bench.poller.drained.is_set)


def poll_until(bench: Bench, condition: Callable[[], bool]) -> None:
    """One poll may have to wait for the answer of a slow statement."""

    def is_met() -> bool:
        bench.poller.poll()
        return condition()

    wait_until(is_met)


def test_the_others_are_released_before_one_begins(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it kills its process at once, they are not there any more."""
    add_rescued("a", "b", "c")
    queued: list[int] = []
    usual = bench.held.release_now

    def release(tasks: Any) -> None:
        usual(tasks)
        queued.append(len(bench.queue))

    monkeypatch.setattr(bench.held, "release_now", release)
    bench.poller.poll()
    assert queued == [0]
    assert set(Task.objects.filter(status=TaskStatus.PENDING).values_list("biz_num", flat=True)) == {"b", "c"}
    assert bench.numbers == ["a"]


def test_none_begins_while_the_others_cannot_be_released(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    add_rescued("a", "b", "c")

    def fail(tasks: Any) -> None:
        raise OperationalError("gone away")

    monkeypatch.setattr(bench.held, "release_now", fail)
    with pytest.raises(OperationalError):
        bench.poller.poll()
    assert bench.numbers == []
    assert len(bench.released) == 3
    assert len(bench.held) == 0


def test_released_when_it_returns(transactional_db: None) -> None:
    with executing(poll_interval=60.0) as executor:
        executor._polling.stop()
        add_rescued("a", "b")
        tasks = claim(executor.lease.executor or 0)
        executor.held.add(tasks)
        executor.held.release_now(tasks)
        assert not Task.objects.exclude(status=TaskStatus.PENDING).exists()
        assert len(executor.held) == 0
