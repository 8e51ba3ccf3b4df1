"""What a handler forks ends as a process, where the handler ends, and leaves its parent's run alone."""

import asyncio
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections, transaction

from django_delayed_tasks import Task, TaskRun, signals
from django_delayed_tasks.states import RunOutcome
from harness.torture import misuse
from harness.torture.misuse import ENDS
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, drain, handler_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.per_database]

codes: list[int] = []
"""How the children ended."""


@pytest.fixture(autouse=True)
def _no_codes() -> None:
    codes.clear()


def fork(end: Callable[[], Any]) -> bool:
    """Fork a child that ends so; return whether this is the parent."""
    code = misuse.fork(end)
    if code is not None:
        codes.append(code)
    return code is not None


def write(name: str = "effect") -> None:
    """An effect that no executor cleans away."""
    add(name, "effect", when=timedelta(hours=1))


def effects() -> list[str]:
    return list(Task.objects.filter(biz_code="effect").order_by("id").values_list("biz_num", flat=True))


def outcomes() -> list[RunOutcome]:
    return [RunOutcome(outcome) for outcome in TaskRun.objects.values_list("outcome", flat=True)]


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("way", ENDS)
def test_a_child_of_a_run(way: str, atomic: bool) -> None:
    end, code = ENDS[way]

    def handle(task: Any) -> None:
        write("before")
        if fork(end):
            write("after")

    handler_of(handle, atomic=atomic, max_attempts=1)
    handler_of(lambda task: None, "effect")
    add()
    drain(threads=1)
    assert codes == [code]
    assert outcomes() == [RunOutcome.DONE]
    assert effects() == ["before", "after"]


@pytest.mark.parametrize("way", ["sys.exit(3)", "exception"])
def test_in_a_transaction_of_its_own(way: str) -> None:
    """What Django sends at the end of the block does not reach the session of the parent."""
    end, code = ENDS[way]

    def handle(task: Any) -> None:
        with transaction.atomic():
            write("before")
            fork(end)
            write("after")

    handler_of(handle, max_attempts=1)
    handler_of(lambda task: None, "effect")
    add()
    drain(threads=1)
    assert codes == [code]
    assert outcomes() == [RunOutcome.DONE]
    assert effects() == ["before", "after"]


@pytest.mark.skipif(settings.DDT_DATABASE == "sqlite", reason="SQLite does not allow it")
@pytest.mark.parametrize("is_replaced", [False, True], ids=["first", "replaced"])
def test_a_child_has_connections_of_its_own(is_replaced: bool) -> None:
    """Also if the parent's is one that the thread opened after a run that had not left the first one like new."""

    def write_there() -> None:
        write("child")
        connections.close_all()

    def handle(task: Any) -> None:
        write("before")
        session = connections["default"].connection
        if fork(write_there):
            write("after")
            assert connections["default"].connection is session

    handler_of(handle, max_attempts=1)
    handler_of(lambda task: misuse.misuse([("wrapper", "default")]), "misuse")
    handler_of(lambda task: None, "effect")
    if is_replaced:
        add(code="misuse")
    add()
    drain(threads=1)
    assert codes == [0]
    assert outcomes() == [RunOutcome.DONE] * (1 + is_replaced)
    assert sorted(effects()) == ["after", "before", "child"]


@pytest.mark.parametrize("where", ["coroutine", "thread"])
@pytest.mark.parametrize("way", ENDS)
def test_a_child_of_an_async_run(way: str, where: str) -> None:
    end, code = ENDS[way]

    async def handle(task: Any) -> None:
        if where == "coroutine":
            fork(end)
        else:
            await sync_to_async(fork)(end)

    async_handler_of(handle, max_attempts=1)
    handler_of(lambda task: None, "effect")
    add()
    drain(threads=1)
    assert codes == [code]
    assert outcomes() == [RunOutcome.DONE]


def test_a_child_of_one_coroutine_does_not_run_the_others() -> None:
    """It ends at the end of the step that has forked it: it is no second event loop of the executor."""
    reader, writer = os.pipe()

    async def fork_apart() -> None:
        await asyncio.sleep(0)
        fork(ENDS["return"][0])

    async def handle(task: Any) -> None:
        forking = asyncio.ensure_future(fork_apart())
        while not forking.done():
            os.write(writer, f"{os.getpid()} ".encode())
            await asyncio.sleep(0)

    async_handler_of(handle, max_attempts=1)
    add()
    drain(threads=1)
    os.close(writer)
    with os.fdopen(reader) as output:
        assert set(output.read().split()) == {str(os.getpid())}
    assert codes == [0]
    assert outcomes() == [RunOutcome.DONE]


@contextmanager
def receiving(signal: Any, receiver: Callable[..., None]) -> Iterator[None]:
    signal.connect(receiver)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@pytest.mark.parametrize("signal", [signals.run_started, signals.run_finished, signals.task_claimed])
@pytest.mark.parametrize("way", ["sys.exit(3)", "return"])
def test_a_child_of_a_receiver(way: str, signal: Any) -> None:
    calls: list[int] = []

    def receive(**_: Any) -> None:
        fork(ENDS[way][0])

    handler_of(lambda task: calls.append(os.getpid()), max_attempts=1)
    add()
    with receiving(signal, receive):
        drain(threads=1)
    assert len(codes) == 1
    assert calls == [os.getpid()]
    assert outcomes() == [RunOutcome.DONE]


@pytest.mark.parametrize("way", ["sys.exit(3)", "sys.exit('text')", "exception", "return"])
def test_a_child_ends_although_the_lock_of_its_output_is_held_for_ever(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread of the parent has it at the moment of the fork; there is no such thread in the child."""
    end, code = ENDS[way]
    reader, writer = os.pipe()
    with open(reader, "rb") as read, open(writer, "w") as stuck:
        monkeypatch.setattr(sys, "stderr", stuck)
        monkeypatch.setattr(sys, "stdout", stuck)
        writing = Thread(target=lambda: stuck.buffer.write(bytes(1_000_000)))
        writing.start()
        wait_until(lambda: not select.select([], [writer], [], 0)[1])
        handler_of(lambda task: fork(end), max_attempts=1)
        add()
        drain(threads=1)
        monkeypatch.undo()
        read.read(1_000_000)
        writing.join()
    assert codes == [code]


@pytest.mark.parametrize("hook", ["on_failed", "backoff", "concurrency_key"])
def test_a_child_of_a_hook(hook: str) -> None:
    """It ends with its own exit code, and logs nothing: another thread may hold the lock of the log's stream."""

    def call(self: Any, *_: Any) -> None:
        fork(lambda: sys.exit(3))

    def fail(task: Any) -> None:
        raise ValueError

    options: dict[str, Any] = {hook: call, "max_attempts": 1 if hook == "on_failed" else 2, "max_concurrent": 1}
    handler_of(fail, **options)
    handler_of(lambda task: None, "effect")
    add()
    drain(threads=1)
    assert set(codes) == {3}
