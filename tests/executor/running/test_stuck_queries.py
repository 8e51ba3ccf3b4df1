"""The thread for the queries of async runs when a call in it does not end."""

from collections.abc import Iterator
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from django_delayed_tasks import signals
from django_delayed_tasks.executor.running import awaited_runs
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, executing
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("live_db")


class Hanging:
    """An async handler whose call in the thread for queries ends when the test says so."""

    def __init__(self, code: str = "hanging", **attributes: Any) -> None:
        self.begun = Event()
        self.go_on = Event()
        async_handler_of(self.handle, code, **attributes)

    async def handle(self, task: Any) -> None:
        await sync_to_async(self.hang)()

    def hang(self) -> None:
        self.begun.set()
        assert self.go_on.wait(60)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    one = Hanging()
    yield one
    one.go_on.set()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited_runs, "MAX_QUERY", 0.1)


async def query(task: Any) -> None:
    assert await Task.objects.filter(biz_num=task.biz_num).aexists()


def threads_for_queries() -> list[Thread]:
    return [thread for thread in enumerate_threads() if thread.name.startswith("coroutines' queries")]


@pytest.mark.usefixtures("impatient")
class TestAnotherThreadTakesOver:
    def test_and_the_other_runs_end(self, hanging: Hanging, caplog: pytest.LogCaptureFixture) -> None:
        async_handler_of(query, code="other")
        add(code="hanging")
        with executing(threads=1):
            assert hanging.begun.wait(60)
            for number in range(3):
                add(str(number), code="other")
            wait_until(lambda: TaskRun.objects.filter(biz_code="other", outcome=RunOutcome.DONE).count() == 3)
            assert len(threads_for_queries()) == 2
            hanging.go_on.set()
            wait_until(lambda: not Task.objects.exists())
            wait_until(lambda: len(threads_for_queries()) == 1)
        assert TaskRun.objects.get(biz_code="hanging").outcome == RunOutcome.DONE
        assert "hanging 1 keeps the thread for queries, for " in caplog.text
        assert "assert self.go_on.wait(60)" in caplog.text

    def test_only_if_other_calls_wait(self, hanging: Hanging, caplog: pytest.LogCaptureFixture) -> None:
        add(code="hanging")
        with executing(threads=1) as executor:
            assert hanging.begun.wait(60)
            assert executor.awaited.loop.queries.replace_stuck(0.0, 8) == []
            assert executor.awaited.loop.queries.stalled_for() == 0.0
            hanging.go_on.set()
        assert "keeps the thread" not in caplog.text

    def test_at_most_as_often_as_threads_may_be_lost(self, hanging: Hanging) -> None:
        """After that, calls wait; if that lasts, the process is to be restarted."""
        for number in range(3):
            add(str(number), code="hanging")
        with executing(threads=1, max_lost_threads=1) as executor:
            assert hanging.begun.wait(60)
            wait_until(lambda: len(threads_for_queries()) == 2)
            wait_until(lambda: executor.awaited.loop.queries.stalled_for() > 0.3)
            assert len(threads_for_queries()) == 2
            assert executor.health.trouble() == ""
            executor.health._threads = ()  # on a busy machine they may wait for the database as long
            executor.health._longest_call = 0.2
            assert executor.health.trouble() == "the calls of async runs block all the threads that make their queries"
            hanging.go_on.set()
            wait_until(lambda: not Task.objects.exists())
            assert executor.health.trouble() == ""


def test_a_run_that_has_returned_ends_at_a_stop_although_a_call_hangs(hanging: Hanging) -> None:
    """Its end is announced in the thread that hangs."""
    returned = Event()

    async def handle(task: Any) -> None:
        returned.set()

    def announced(**_: Any) -> None: ...

    async_handler_of(handle, code="other")
    add(code="hanging")
    with executing(threads=1) as executor:
        assert hanging.begun.wait(60)
        signals.run_finished.connect(announced)
        try:
            add("returned", code="other")
            assert returned.wait(60)
            wait_until(lambda: executor.awaited.loop.queries.stalled_for() > 0)
            executor.stop(0.0)
        finally:
            signals.run_finished.disconnect(announced)
    assert TaskRun.objects.get(biz_code="other").outcome == RunOutcome.DONE
    assert not Task.objects.filter(biz_code="other").exists()
