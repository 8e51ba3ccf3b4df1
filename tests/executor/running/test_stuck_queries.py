"""The thread for the queries of async runs when a call in it does not end."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from django_delayed_tasks.models import Task
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


def test_the_process_is_to_be_restarted_if_it_lasts(hanging: Hanging) -> None:
    for number in range(2):
        add(str(number), code="hanging")
    with executing(threads=1) as executor:
        queries = executor.awaited.loop.queries
        assert hanging.begun.wait(60)
        wait_until(lambda: queries.stalled_for() > 0.3)
        assert executor.health.trouble() == ""
        executor.health._threads = ()  # on a busy machine they may wait for the database as long
        executor.health._longest_call = 0.2
        assert executor.health.trouble() == "a call of an async run blocks the thread that makes the queries of all"
        hanging.go_on.set()
        wait_until(lambda: not Task.objects.exists())
        assert executor.health.trouble() == ""


def test_only_if_other_calls_wait(hanging: Hanging) -> None:
    add(code="hanging")
    with executing(threads=1) as executor:
        assert hanging.begun.wait(60)
        assert executor.awaited.loop.queries.stalled_for() == 0.0
        hanging.go_on.set()
