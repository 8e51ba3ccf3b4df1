"""What a handler forks ends as a process, where the handler ends, and leaves its parent's run alone."""

import os
import select
import sys
from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.conf import settings
from django.db import connections, transaction

from django_delayed_tasks import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from harness.torture import misuse
from harness.torture.misuse import ENDS
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
