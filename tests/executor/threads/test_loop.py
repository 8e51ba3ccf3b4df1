"""A thread that repeats one iteration: when it does so, how it survives errors, and how it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread
from typing import Any

import pytest

from django_delayed_tasks.executor.threads.loop import Backoff, Loop
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 600.0
"""Seconds that no test waits."""


class TestBackoff:
    @pytest.mark.parametrize(("first", "longest"), [(0.05, 5.0), (1.0, 60.0)])
    def test_pauses_double_up_to_the_longest_and_lose_up_to_half(self, first: float, longest: float) -> None:
        spans = [min(longest, first * 2**failures) for failures in range(40)]
        runs = [list(pauses(Backoff(first, longest), len(spans))) for _ in range(200)]
        for span, found in zip(spans, zip(*runs, strict=True), strict=True):
            assert span / 2 <= min(found) < 0.6 * span
            assert 0.9 * span < max(found) <= span

    def test_by_default_from_a_twentieth_of_a_second_to_five_seconds(self) -> None:
        backoff = Backoff()
        assert 0.025 <= backoff.failed() <= 0.05
        assert 2.5 <= list(pauses(backoff, 100))[-1] <= 5

    def test_a_success_makes_the_next_pause_short_again(self) -> None:
        backoff = Backoff()
        assert not backoff.succeeded()
        list(pauses(backoff, 10))
        assert backoff.failures == 10
        assert backoff.succeeded()
        assert backoff.failures == 0
        assert not backoff.succeeded()
        assert backoff.failed() <= 0.05

    def test_a_wait_counts_and_ends_at_once_when_it_is_to_stop(self) -> None:
        backoff, stop = Backoff(LONG, LONG), Event()
        stop.set()
        backoff.wait(stop)
        assert backoff.failures == 1


def pauses(backoff: Backoff, times: int) -> Iterator[float]:
    return (backoff.failed() for _ in range(times))


class Iterations:
    """What a loop calls: it notes its calls and does what it is told to do in each of them; then it returns LONG."""

    def __init__(self, *what: Callable[[], float]) -> None:
        self.count = 0
        self.threads: list[Thread] = []
        self._what = list(what)

    def __call__(self) -> float:
        self.threads.append(current_thread())
        self.count += 1
        return self._what.pop(0)() if self._what else LONG

    def note(self) -> None:
        self()


def fail() -> float:
    raise ConnectionError("the database has gone")


@contextmanager
def looping(iterate: Callable[[], float], **options: Any) -> Iterator[Loop]:
    """A loop that has started, and ends with the block."""
    loop = Loop("a loop", "default", iterate, **options)
    loop.start()
    try:
        yield loop
    finally:
        loop.stop(30)
        assert not loop.is_alive


class TestLoop:
    def test_repeats_at_once_or_after_the_pause_that_the_iteration_asks_for(self) -> None:
        iterations = Iterations(lambda: 0.0, lambda: 0.001)
        with looping(iterations) as loop:
            wait_until(lambda: iterations.count == 3)
            assert loop.is_alive
            assert loop.name == "a loop"
            assert {thread.name for thread in iterations.threads} == {"a loop"}
            assert all(thread.daemon for thread in iterations.threads)
        assert iterations.count == 3

    def test_is_woken_by_its_event(self) -> None:
        sleeper, iterations = Event(), Iterations()
        with looping(iterations, sleeper=sleeper):
            for count in (1, 2, 3):
                wait_until(lambda: iterations.count == count and not sleeper.is_set())  # noqa: B023
                sleeper.set()
            wait_until(lambda: iterations.count == 4)

    def test_an_event_during_an_iteration_wakes_it_too(self) -> None:
        sleeper = Event()

        def hear() -> float:
            sleeper.set()
            return LONG

        iterations = Iterations(hear)
        with looping(iterations, sleeper=sleeper):
            wait_until(lambda: iterations.count == 2)

    def test_stops_while_it_sleeps_and_says_farewell_in_its_thread(self) -> None:
        farewells = Iterations()
        iterations = Iterations()
        loop = Loop("a loop", "default", iterations, farewell=farewells.note)
        loop.start()
        wait_until(lambda: iterations.count)
        assert farewells.count == 0
        loop.stop(30)
        assert not loop.is_alive
        assert farewells.threads == iterations.threads
        assert iterations.count == farewells.count == 1

    def test_a_farewell_that_fails_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with looping(Iterations(), farewell=Iterations(fail).note):
            pass
        assert "a loop could not end gracefully: the database has gone" in caplog.text

    def test_says_for_how_long_an_iteration_has_been_at_work(self) -> None:
        begun, go_on = Event(), Event()

        def work() -> float:
            begun.set()
            assert go_on.wait(30)
            return LONG

        with looping(Iterations(work)) as loop:
            assert begun.wait(30)
            wait_until(lambda: loop.busy_for() > 0)
            go_on.set()
            wait_until(lambda: loop.busy_for() == 0)

    @pytest.mark.parametrize("error", [ConnectionError("the database has gone"), SystemExit(3)])
    def test_recovers_after_each_error_and_logs_the_first_one(
        self, error: BaseException, caplog: pytest.LogCaptureFixture
    ) -> None:
        recovered = Iterations()

        def raise_it() -> float:
            raise error

        iterations = Iterations(raise_it, raise_it, lambda: 0.0, raise_it)
        with looping(iterations, recover=recovered.note):
            wait_until(lambda: iterations.count == 5)
        assert recovered.count == 3
        assert {*recovered.threads} == {*iterations.threads}
        said = [record.getMessage() for record in caplog.records if record.name.endswith("loop")]
        assert said == [f"a loop backs off: {error}", "a loop continues"] * 2

    def test_pauses_grow_from_error_to_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[float] = []

        def sleep(loop: Loop, seconds: float) -> None:
            asked.append(seconds)
            if len(asked) == 8:
                loop._stopped.set()

        monkeypatch.setattr(Loop, "_sleep", sleep)
        with looping(Iterations(*[fail] * 6, lambda: 0.0)):
            wait_until(lambda: len(asked) == 8)
        assert asked[:6] == sorted(asked[:6])
        assert 0.8 <= asked[5] <= 1.6
        assert asked[6:] == [0.0, LONG]

    def test_what_cannot_recover_is_tried_again(self, caplog: pytest.LogCaptureFixture) -> None:
        iterations = Iterations(fail)
        with looping(iterations, recover=Iterations(fail).note):
            wait_until(lambda: iterations.count == 2)
        assert "a loop could not recover; it tries again" in caplog.text
