"""A backlog of tasks for threads, in a process that also has async handlers: most claims are as plain as without these.

To claim no more of each kind than there is room for, the first tasks of a level are read before some are claimed.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.claiming import prefetch
from django_delayed_tasks.store.claiming.request import ClaimRequest
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import Bench, add, handler_of

pytestmark = pytest.mark.django_db


async def nothing(task: Any) -> None:
    """Do nothing."""


class Watched:
    """Two threads, three runs on the loop, and the requests that were made."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.requests: list[ClaimRequest] = []
        usual = bench.poller._claim

        def claim(alias: str, request: ClaimRequest) -> Any:
            self.requests.append(request)
            return usual(alias, request)

        bench.poller._claim = claim

    def poll(self) -> list[tuple[bool, int]]:
        """Poll once; return of each request whether it read the first tasks, and how many it was to claim at most."""
        self.requests.clear()
        self.bench.poller.poll()
        return [(request.shares is not None, request.limit) for request in self.requests]

    def finish_all(self) -> None:
        """End all runs in threads, so that there is room again."""
        self.bench.finish(self.bench.delivered, seconds=10.0)
        self.bench.delivered.clear()


@pytest.fixture
def watched(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(prefetch, "PASSED_BY", 3600.0)
    handler_of(lambda task: None, code="plain")
    async_handler_of(nothing, code="async")
    return Watched(make_bench(threads=2, async_concurrency=3))


def add_some(code: str, *numbers: int) -> None:
    for number in numbers:
        add(f"{number:02}", code=code)


def test_the_first_tasks_are_read_once_and_then_claims_are_plain(watched: Watched) -> None:
    add_some("plain", *range(8))
    assert watched.poll()[0] == (True, prefetch.LOOK)
    for expected in (["02", "03"], ["04", "05"]):
        watched.finish_all()
        assert watched.poll() == [(False, 2)]
        assert watched.bench.numbers == expected


def test_a_poll_for_the_loop_alone_reads_them(watched: Watched) -> None:
    add_some("plain", *range(8))
    watched.poll()
    add_some("async", 10)
    watched.poll()
    assert watched.bench.awaited.numbers == ["10"]


def test_tasks_for_the_loop_are_passed_by_for_a_moment(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    add_some("plain", *range(4))
    watched.poll()
    add_some("async", 10)
    add_some("plain", 11, 12, 13)
    watched.finish_all()
    watched.poll()
    assert (watched.bench.numbers, watched.bench.awaited.numbers) == (["02", "03"], [])
    later = clock.monotonic() + 3601
    monkeypatch.setattr(prefetch, "clock", SimpleNamespace(monotonic=lambda: later))
    watched.finish_all()
    watched.poll()
    assert watched.bench.awaited.numbers == ["10"]


def test_they_are_looked_for_as_soon_as_the_others_run_out(watched: Watched) -> None:
    add_some("plain", *range(3))
    watched.poll()
    add_some("async", *range(10, 15))
    watched.finish_all()
    watched.poll()
    assert (watched.bench.numbers, watched.bench.awaited.numbers) == (["02"], ["10", "11", "12"])


def test_a_full_loop_does_not_count_as_none_waiting(watched: Watched) -> None:
    add_some("async", *range(4))
    add_some("plain", *range(10, 18))
    watched.poll()
    assert watched.bench.awaited.numbers == ["00", "01", "02"]
    watched.finish_all()
    assert {was_read for was_read, _ in watched.poll()} == {True}


def test_a_drain_ends_when_nothing_of_either_kind_is_due(make_bench: Any, watched: Watched) -> None:
    bench = make_bench(name="draining", threads=2, async_concurrency=3, drain=True)
    add_some("plain", *range(7))
    add_some("async", *range(10, 15))
    numbers: list[str] = []
    for _ in range(20):
        bench.poller.poll()
        numbers += [*bench.numbers, *bench.awaited.numbers]
        bench.finish([*bench.delivered, *(batch[0] for batch in bench.awaited.batches)], seconds=10.0)
        bench.delivered.clear()
        bench.awaited.batches.clear()
        if bench.poller.drained.is_set():
            break
    assert bench.poller.drained.is_set()
    assert sorted(numbers) == [f"{number:02}" for number in (*range(7), *range(10, 15))]
