"""A rate by key: a key never exceeds its rate, and no other key has to wait for it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F

from django_delayed_tasks.executor.limits import permits
from django_delayed_tasks.leases.pool import Pool
from django_delayed_tasks.models import Resource, Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.resources.rate_tokens import KEY_STARTS, free_growing
from django_delayed_tasks.store.sql.lanes import blocked_lane
from tests.executor.limits.parts import LanesBench, add_some, limited
from tests.executor.parts import add, drain, handler_of

MakeBench = Callable[..., LanesBench]
Later = Callable[[float], None]


def by_customer(rate: str, **limits: Any) -> None:
    limited(rate=rate, concurrency_key=lambda self, task: task.biz_ext, **limits)


def test_the_rate_is_for_each_key(bench: LanesBench) -> None:
    by_customer("2/h")
    for number, customer in enumerate(["x", "x", "x", "y", None, None, None]):
        add(str(number), biz_ext=customer)
    for _ in range(3):
        bench.turn()
    assert sorted(bench.numbers) == ["0", "1", "3", "4", "5"]


def test_it_goes_with_slots_and_resources_for_each_key(bench: LanesBench) -> None:
    for name in ("a", "b", "c"):
        Pool("proxies").add(name)
    by_customer("2/h", max_concurrent=1, pool="proxies")
    for number, customer in enumerate(["x", "x", "y", "y"]):
        add(str(number), biz_ext=customer)
    bench.turn()
    assert bench.numbers == ["0", "2"]
    assert Resource.objects.filter(pool="proxies").exclude(holder="").count() == 2


def test_what_was_had_is_given_back_for_an_exhausted_key(bench: LanesBench) -> None:
    for name in ("a", "b", "c"):
        Pool("proxies").add(name)
    by_customer("1/h", max_concurrent=3, pool="proxies")
    add_some(3, biz_ext="x")
    bench.turn()
    assert bench.numbers == ["0"]
    assert Resource.objects.filter(pool="proxies").exclude(holder="").count() == 1
    assert Resource.objects.filter(pool__startswith="ddt.slots.").exclude(task_id=None).count() == 1


def test_another_key_starts_in_the_same_moment(make_bench: MakeBench) -> None:
    """Although each thread was meant for a task of the key that is exhausted."""
    bench = make_bench(threads=4)
    by_customer("1/h")
    add_some(4, biz_ext="many")
    add("other", biz_ext="few")
    bench.turn()
    assert bench.numbers == ["0", "other"]


def test_while_a_key_is_exhausted_its_tasks_are_blocked(bench: LanesBench) -> None:
    by_customer("1/h")
    add_some(5, biz_ext="many")
    bench.turn()
    assert bench.numbers == ["0"]
    add("late", biz_ext="many")
    bench.turn()
    waiting = Task.objects.filter(status=TaskStatus.PENDING)
    assert {task.lane for task in waiting} == {blocked_lane("code", "many")}


def test_a_key_starts_again_when_its_next_token_is_free(bench: LanesBench, later: Later) -> None:
    """The lanes wake then, not a poll later."""
    by_customer("1/s")
    add_some(2, biz_ext="x")
    bench.turn()
    assert bench.numbers == ["0"]
    assert bench.tick() <= 1.0
    Resource.objects.filter(pool__startswith=KEY_STARTS).update(busy_before=F("busy_before") - timedelta(seconds=1))
    bench.tick()
    assert bench.numbers == ["0"]
    later(1.0)
    bench.tick()
    assert bench.numbers == ["0", "1"]


def test_two_executors_share_the_rate_of_a_key(make_bench: MakeBench) -> None:
    first, second = make_bench("first"), make_bench("second")
    by_customer("3/h")
    add_some(8, biz_ext="x")
    for _ in range(3):
        for bench in (first, second):
            bench.turn()
    assert len(first.numbers + second.numbers) == 3


def test_a_drain_waits_for_every_key(transactional_db: None) -> None:
    ran: list[str] = []
    handler_of(lambda task: ran.append(task.biz_num), rate="4/s", concurrency_key=lambda self, task: task.biz_num[0])
    for key in "ab":
        add_some(6, prefix=key)
    drain(threads=1)
    assert sorted(ran) == sorted(f"{key}{number}" for key in "ab" for number in range(6))


def test_an_outage_between_two_keys(bench: LanesBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was had is given back; the token of the first key is lost for a period."""
    for name in ("a", "b"):
        Pool("proxies").add(name)
    by_customer("2/h", max_concurrent=2, pool="proxies")
    for number, customer in enumerate("xy"):
        add(str(number), biz_ext=customer)
    bench.poller.poll()
    usual, calls = free_growing, []

    def fail_once(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise OperationalError("gone away")
        return usual(*arguments)

    monkeypatch.setattr(permits, "free_growing", fail_once)
    with pytest.raises(OperationalError):
        bench.tick()
    assert not Resource.objects.filter(pool="proxies").exclude(holder="").exists()
    assert not Resource.objects.exclude(task_id=None).exists()
    bench.tick()
    assert bench.numbers == ["0", "1"]
