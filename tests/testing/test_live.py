"""``LiveExecutor``: threads of an executor, in a test that commits."""

from datetime import timedelta
from threading import Barrier, Event, current_thread
from typing import Any

import freezegun
import pytest
from django.db import connection

from django_delayed_tasks import TaskException, TaskRun, pause_queue
from django_delayed_tasks.models import Executor
from django_delayed_tasks.testing import LiveExecutor
from tests.executor.parts import add, handler_of


@pytest.mark.usefixtures("live_db")
class TestInATestThatCommits:
    def test_runs_meet_in_threads(self) -> None:
        together = Barrier(2, timeout=30)
        threads: set[str] = set()

        def handle(task: Any) -> None:
            together.wait()
            threads.add(current_thread().name)

        handler_of(handle)
        with LiveExecutor() as executor:
            add("1")
            add("2")
            executor.wait(30)
        assert len(threads) == 2
        assert TaskRun.objects.count() == 2
        assert not Executor.objects.filter(alive=True).exists()

    def test_what_is_not_due_is_not_waited_for(self) -> None:
        handler_of(lambda task: None)
        add("later", when=timedelta(hours=1))
        add("paused", queue="slow")
        pause_queue("slow")
        with LiveExecutor() as executor:
            executor.wait(30)

    def test_a_test_waits_for_something_else(self) -> None:
        began = Event()
        handler_of(lambda task: began.set())
        with LiveExecutor(threads=1) as executor:
            add()
            executor.wait_for(began.is_set, 30)

    def test_what_does_not_end_is_named(self) -> None:
        may_end = Event()
        handler_of(lambda task: may_end.wait(30))
        with LiveExecutor() as executor:
            add("endless")
            with pytest.raises(AssertionError, match=r"after 0 s there are tasks left: code endless \("):
                executor.wait(0)
            may_end.set()

    def test_there_is_one_in_a_process(self) -> None:
        handler_of(lambda task: None)
        with LiveExecutor(), pytest.raises(TaskException, match="executor already"):
            LiveExecutor().__enter__()

    def test_freezegun_is_refused(self) -> None:
        with freezegun.freeze_time("2030-01-01"), pytest.raises(TaskException, match="use time-machine, travel "):
            LiveExecutor().__enter__()


@pytest.mark.django_db
def test_a_test_case_is_refused() -> None:
    assert connection.in_atomic_block
    with pytest.raises(TaskException, match="in a TestCase"):
        LiveExecutor().__enter__()
