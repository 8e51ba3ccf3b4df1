"""Threads of which one may hang: it is given up, and another one takes its place."""

from collections.abc import Iterator
from threading import Event, current_thread
from typing import Any

import pytest
from django.db import OperationalError

from django_delayed_tasks.executor.threads.crew import Crew, CrewThread, Jobs
from django_delayed_tasks.store.sql import kept_connections
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class Hanging:
    """A crew whose jobs hang until ``go_on`` is set if they begin with "h", and raise if they begin with "e"."""

    def __init__(self, size: int = 1) -> None:
        self.go_on = Event()
        self.begun: list[str] = []
        self.done: list[tuple[str, str]] = []
        self.lost: list[tuple[str, str]] = []
        self.jobs: Jobs[str] = Jobs()
        self.crew = Crew("thread", "default", self.jobs, self.do, self.lose, size, connects_first=True)

    def do(self, thread: CrewThread[str], job: str) -> None:
        assert (thread, thread.job) == (current_thread(), job)
        self.begun.append(job)
        if job.startswith("h"):
            assert self.go_on.wait(60)
        if job.startswith("e"):
            raise SystemExit(job)
        self.done.append((thread.name, job))

    def lose(self, job: str, error: BaseException) -> None:
        self.lost.append((job, str(error)))
        if job.endswith("!"):
            raise SystemExit(job)

    def put(self, *jobs: str) -> None:
        for job in jobs:
            self.jobs.put(job)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    one = Hanging()
    yield one
    one.go_on.set()
    one.crew.finish(60)


def test_one_that_hangs_is_given_up_and_ends_after_its_job(hanging: Hanging) -> None:
    hanging.crew.start()
    hanging.put("h1", "a", "b")
    wait_until(lambda: hanging.begun)
    [(thread, job)] = hanging.crew.busy()
    assert hanging.crew.give_up(thread, job)
    assert not hanging.crew.give_up(thread, job), "once"
    assert (hanging.crew.lost(), hanging.crew.threads) == ([thread], [])
    hanging.crew.start()
    wait_until(lambda: hanging.done == [("thread-2", "a"), ("thread-2", "b")])
    hanging.go_on.set()
    wait_until(lambda: not thread.is_alive())
    assert hanging.crew.lost() == []
    assert hanging.done[-1] == ("thread-1", "h1")


def test_one_that_has_just_ended_its_job_is_not_given_up(hanging: Hanging) -> None:
    """It would take further jobs, in addition to the thread that replaces it."""
    hanging.crew.start()
    hanging.put("h1")
    wait_until(lambda: hanging.begun)
    [(thread, job)] = hanging.crew.busy()
    hanging.go_on.set()
    wait_until(lambda: thread.job is None)
    hanging.put("h2")
    wait_until(lambda: thread.job == "h2" or len(hanging.done) == 2)
    assert not hanging.crew.give_up(thread, job)
    assert (hanging.crew.threads, hanging.crew.lost()) == ([thread], [])


def test_an_error_around_a_job_ends_no_thread(hanging: Hanging, caplog: pytest.LogCaptureFixture) -> None:
    hanging.crew.start()
    hanging.put("e1", "a")
    wait_until(lambda: hanging.done == [("thread-1", "a")])
    assert hanging.lost == [("e1", "e1")]
    assert "thread-1 failed at e1" in caplog.text


def test_an_error_while_a_job_is_reported_lost_ends_no_thread(
    hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    hanging.crew.start()
    hanging.put("e!", "a")
    wait_until(lambda: hanging.done == [("thread-1", "a")])
    assert "thread-1 cannot tell what became of e!" in caplog.text


def test_a_connection_is_open_before_the_first_job(hanging: Hanging) -> None:
    hanging.crew.start()
    [thread] = hanging.crew.threads
    wait_until(lambda: thread.is_connected)
    assert hanging.begun == []


@pytest.mark.parametrize("error", [OperationalError, SystemExit])
def test_a_thread_that_cannot_connect_takes_jobs_all_the_same(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Some need no connection; all others try again. A receiver of ``connection_created`` may raise anything."""

    def refuse(alias: str) -> None:
        raise error(f"no connection to {alias}")

    monkeypatch.setattr(kept_connections, "opened", refuse)
    hanging.crew.start()
    hanging.put("a")
    wait_until(lambda: hanging.done == [("thread-1", "a")])
    [thread] = hanging.crew.threads
    assert not thread.is_connected


@pytest.mark.parametrize("times", [1, 2])
def test_all_end_after_what_waits_however_often_they_are_told(times: int) -> None:
    three = Hanging(size=3)
    three.crew.start()
    three.put(*"abcdfg")
    for _ in range(times):
        three.crew.finish(60)
    assert sorted(job for _, job in three.done) == list("abcdfg")
    assert not any(thread.is_alive() for thread in three.crew.threads)
    assert three.jobs.left() == 0
    three.crew.start()
    assert len(three.crew.threads) == 3


def test_what_is_left_at_the_end_is_counted(hanging: Hanging) -> None:
    hanging.crew.start()
    hanging.put("h1", "a", "b")
    wait_until(lambda: hanging.begun)
    for _ in range(2):
        hanging.crew.finish(0)
        assert hanging.jobs.left() == 2
    hanging.go_on.set()
    hanging.crew.finish(60)
    assert hanging.jobs.left() == 0


def test_how_long_a_job_takes(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging.crew.start()
    hanging.put("h1")
    wait_until(lambda: hanging.begun)
    [thread] = hanging.crew.threads
    now: Any = thread.began + 7.0
    monkeypatch.setattr("django_delayed_tasks.clock.monotonic", lambda: now)
    assert thread.busy_for() == 7.0
    hanging.go_on.set()
    wait_until(lambda: thread.job is None)
    assert thread.busy_for() == 0.0
