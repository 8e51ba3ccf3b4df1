"""Other executors are quicker: what a claim has read they take before it writes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks.executor.claiming.poller import MAX_LOST_RACES
from django_delayed_tasks.executor.limits.lanes import AGAIN
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from tests.executor.parts import Bench, add, claim, handler_of, registered

pytestmark = pytest.mark.django_db


@contextmanager
def before_claims(act: Callable[[], Any]) -> Iterator[None]:
    """Call this between what a claim reads and what it writes; it may claim itself."""
    is_acting = False

    def wrap(execute: Any, sql: str, *rest: Any) -> Any:
        nonlocal is_acting
        if not is_acting and sql.startswith(f"UPDATE {Task._meta.db_table}") and "attempts = attempts + 1" in sql:
            is_acting = True
            act()
            is_acting = False
        return execute(sql, *rest)

    with connection.execute_wrapper(wrap):
        yield


def drain(bench: Bench) -> float:
    """Poll until a full scan finds nothing (not each poll is one where they are slow); return the pause after it."""
    for _ in range(4):
        pause = bench.poller.poll()
        if bench.poller.found_nothing:
            return pause
        bench.finish(list(bench.delivered))
    raise AssertionError("it never finds nothing")


def test_others_were_quicker(make_bench: Any) -> None:
    """That is not the end of a drain: there may be more, and it looks again soon."""
    handler_of(lambda task: None)
    add("theirs")
    bench = make_bench(claim="compare_and_set", drain=True, poll_interval=60.0)
    others: list[ClaimedTask] = []

    def take_and_add() -> None:
        others.extend(claim(registered()))
        add("mine")

    with before_claims(take_and_add):
        assert 0 < bench.poller.poll() <= AGAIN
    assert (bench.numbers, bench.poller.found_nothing) == ([], False)
    drain(bench)
    assert ([task.biz_num for task in others], bench.numbers) == (["theirs"], ["mine"])


def test_others_are_always_quicker(make_bench: Any) -> None:
    """What can never be claimed does not keep it busy, nor a drain from its end."""
    handler_of(lambda task: None)
    add("theirs")
    bench = make_bench(claim="compare_and_set", drain=True, poll_interval=60.0)
    with before_claims(lambda: add("theirs")):
        for _ in range(MAX_LOST_RACES):
            assert bench.poller.poll() <= AGAIN
            assert not bench.poller.found_nothing
        assert drain(bench) > AGAIN
    assert bench.numbers == []
    assert Task.objects.get().version - MAX_LOST_RACES in (1, 2)
