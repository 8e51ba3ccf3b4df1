"""What a project's code leaves in its thread, the next call does not find; connections stay as they are."""

import asyncio
import decimal
from collections.abc import Callable
from contextvars import ContextVar
from datetime import timedelta
from queue import SimpleQueue
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.cache import caches
from django.db import connections
from django.urls import get_script_prefix, get_urlconf, set_script_prefix, set_urlconf
from django.utils import timezone, translation

from django_delayed_tasks import signals
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.executor.batches import batched
from tests.executor.parts import add, executing, handler_of
from tests.function_tasks.framework import task_backends
from tests.sessions import sessions

pytestmark = pytest.mark.django_db(transaction=True)
SECRET: ContextVar[str] = ContextVar("SECRET", default="")
State = tuple[Any, ...]
CLEAN: State = ("en-us", "Europe/Berlin", "", 28, "/", None)


def state() -> State:
    """Return what is set in this context."""
    return (
        translation.get_language(), timezone.get_current_timezone_name(), SECRET.get(), decimal.getcontext().prec,
        get_script_prefix(), get_urlconf(),
    )  # fmt: skip


def spoil() -> None:
    """Set all of it."""
    translation.activate("de")
    timezone.activate(ZoneInfo("Asia/Tokyo"))
    SECRET.set("of another")
    decimal.getcontext().prec = 5
    set_script_prefix("/elsewhere/")
    set_urlconf("of.another")


class Seen:
    """What calls found, by the kind of call; each leaves a mess behind."""

    def __init__(self) -> None:
        self._found: SimpleQueue[tuple[str, State]] = SimpleQueue()

    def note(self, kind: str) -> None:
        """A call of this kind begins."""
        self._found.put((kind, state()))
        spoil()

    def by_kind(self) -> dict[str, list[State]]:
        """All that was found."""
        found: dict[str, list[State]] = {}
        while not self._found.empty():
            kind, one = self._found.get()
            found.setdefault(kind, []).append(one)
        return found


def drain(**options: Any) -> None:
    """Run all that is due in one thread."""
    with executing(drain=True, threads=1, **options) as executor:
        assert executor.drained.wait(60)


@pytest.mark.parametrize("atomic", [False, True])
def test_of_a_run_the_next_finds_nothing(atomic: bool) -> None:
    seen = Seen()
    handler_of(lambda task: seen.note("run"), atomic=atomic)
    for number in range(5):
        add(str(number))
    drain()
    assert seen.by_kind() == {"run": [CLEAN] * 5}


@pytest.mark.parametrize("atomic", [False, True])
def test_of_a_batch_the_next_finds_nothing(atomic: bool) -> None:
    seen = Seen()
    batched(lambda tasks: seen.note("batch"), batch_size=2, atomic=atomic)
    for number in range(6):
        add(str(number))
    drain()
    assert seen.by_kind() == {"batch": [CLEAN] * 3}


def test_of_a_running_event_loop_the_next_run_finds_nothing() -> None:
    """Django refuses queries where a loop seems to run. A loop that a handler keeps for later is its own matter."""
    loop = asyncio.new_event_loop()

    def handle(task: Any) -> None:
        assert asyncio._get_running_loop() is None
        Task.objects.count()
        asyncio._set_running_loop(loop)

    handler_of(handle, max_attempts=1)
    for number in range(2):
        add(str(number))
    drain()
    loop.close()
    assert set(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE}


@pytest.mark.parametrize("atomic", [False, True])
def test_of_hooks_the_next_finds_nothing(atomic: bool) -> None:
    seen = Seen()

    def fail(task: Any) -> None:
        seen.note("run")
        raise ValueError

    def backoff(self: Any, attempt: int) -> timedelta:
        seen.note("backoff")
        return timedelta(0)

    hooks: dict[str, Any] = {"on_failed": lambda self, task, error: seen.note("on_failed"), "backoff": backoff}
    handler_of(fail, max_attempts=2, atomic=atomic, **hooks)
    for number in range(3):
        add(str(number))
    drain()
    assert seen.by_kind() == {"run": [CLEAN] * 6, "backoff": [CLEAN] * 3, "on_failed": [CLEAN] * 3}


def test_of_a_concurrency_key_the_next_finds_nothing() -> None:
    seen = Seen()

    def key(self: Any, task: Any) -> str:
        seen.note("key")
        return "same"

    handler_of(lambda task: seen.note("run"), max_concurrent=2, concurrency_key=key)
    for number in range(4):
        add(str(number))
    drain()
    found = seen.by_kind()
    assert set(found["key"]) == {CLEAN}
    assert len(found["key"]) >= 4
    assert found["run"] == [CLEAN] * 4


def test_receivers_share_the_context_of_their_run() -> None:
    found: list[str] = []

    def begin(sender: Any, task: Any, **rest: Any) -> None:
        SECRET.set(f"of {task.biz_num}")

    def end(sender: Any, **rest: Any) -> None:
        found.append(SECRET.get())

    signals.run_started.connect(begin)
    signals.run_finished.connect(end)
    try:
        handler_of(lambda task: found.append(SECRET.get()))
        add("1")
        drain()
    finally:
        signals.run_started.disconnect(begin)
        signals.run_finished.disconnect(end)
    assert found == ["of 1", "of 1"]


@pytest.mark.parametrize(
    "what",
    [lambda: connections["default"].connection, lambda: caches["default"], lambda: task_backends["default"]],
    ids=["connection", "cache", "task backend"],
)
def test_a_thread_keeps_its_connections_caches_and_task_backends(what: Callable[[], object]) -> None:
    found: list[object] = []
    counts: list[int] = []

    def handle(task: Any) -> None:
        Task.objects.count()
        found.append(what())
        if task.biz_num in ("10", "59"):
            counts.append(len(sessions()))

    handler_of(handle)
    for number in range(60):
        add(f"{number:02}")
    drain()
    assert TaskRun.objects.count() == 60
    assert len(found) == 60
    assert all(one is found[0] for one in found)
    assert counts[1] <= counts[0] + 8, "the executor's own threads may have connected since, but not each run"
