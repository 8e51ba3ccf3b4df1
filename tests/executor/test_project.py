"""The door to a project's code: each way in which an executor calls it, tried with each misuse.

A new hook, signal or option fails ``test_each_way_in_is_tried`` until it has a door here; and a door through which an
executor does not pass by ``executor/project.py`` fails with the first misuse.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from importlib import import_module
from threading import Event
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction
from django.dispatch import Signal

from django_delayed_tasks import TaskHandler, signals
from django_delayed_tasks.executor import admission
from django_delayed_tasks.executor.limits import lanes
from django_delayed_tasks.executor.running import watchdog
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.handlers.validation import _METHODS
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.outcomes import Fail, Retry
from django_delayed_tasks.states import ExecutorStatus, RunOutcome, TaskStatus
from django_delayed_tasks.store.sql import kept_connections
from harness.torture.misuse import MISUSES as ON_CONNECTIONS
from harness.torture.misuse import kept
from tests.executor.batches import batched
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, claim, executing, handler_of, registered
from tests.threads import in_thread
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.per_database,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # of what is kept, at the end
]

LEFT: ContextVar[str] = ContextVar("LEFT", default="")
BAD = "bad"
"""The number of the task at which a door is misused; its runs may fail, those of the others may not."""
EFFECT = "effect"
"""The code of tasks for later, which stand for what the handlers write: no executor cleans them away."""


def raiser(error: type[BaseException]) -> Callable[[], None]:
    def fail() -> None:
        raise error("misuse")

    return fail


def on_connection(name: str) -> Callable[[], None]:
    return lambda: ON_CONNECTIONS[name]("default")


def break_transaction() -> None:
    """As a handler that swallows an error of a statement, in a transaction that it does not end."""
    block = transaction.atomic()
    block.__enter__()
    kept.append(block)
    with suppress(DatabaseError), connections["default"].cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")
    transaction.set_rollback(True)


def leave_a_variable() -> None:
    LEFT.set("by another call")


OPEN: dict[str, Callable[[], None]] = {
    "a suspended generator": on_connection("generator"),
    "a block that is not left": on_connection("enter"),
    "a broken transaction": break_transaction,
    "autocommit off": on_connection("autocommit off"),
}
"""The misuses that leave a transaction open."""
MISUSES: dict[str, Callable[[], None]] = {
    **OPEN,
    "ValueError": raiser(ValueError),
    "SystemExit": raiser(SystemExit),
    "KeyboardInterrupt": raiser(KeyboardInterrupt),
    "GeneratorExit": raiser(GeneratorExit),
    "a closed connection": on_connection("close"),
    "a closed connection of the driver": on_connection("close driver"),
    "a wrapper": on_connection("wrapper"),
    "captured queries": on_connection("capturing"),
    "a context variable": leave_a_variable,
    "an event loop": on_connection("loop"),
}


HARMLESS = {"ValueError", "captured queries", "a context variable"}
"""The misuses after which what the run itself has written stays, if it would stay without them."""


class Scene:
    """A door that is misused once, and what was seen of the runs.

    Attributes:
        lasting: the effects that the run of the misuse commits, whatever becomes of the next attempt.
    """

    def __init__(self, misuse: str, patch: pytest.MonkeyPatch, settings: Any) -> None:
        self._name, self._misuse = misuse, MISUSES[misuse]
        self._receivers: list[tuple[Signal, Callable[..., None]]] = []
        self.patch = patch
        self.settings = settings
        self.add_bad: Callable[[], object] = lambda: add(BAD)
        self.misused = 0
        self.lasting: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.found: set[str] = set()

    def at_door(self, number: str = BAD) -> None:
        """The project's code is called for the task of this number."""
        if number != BAD:
            self.found.add(LEFT.get())
        elif not self.misused:
            self.misused += 1
            self._misuse()

    def run(self, task: Any) -> None:
        """The work of a handler."""
        self.calls[task.biz_num] += 1
        add(task.biz_num, EFFECT, when=timedelta(hours=1))

    def receive(self, signal: Signal, receiver: Callable[..., None]) -> None:
        """Connect a receiver until the end."""
        signal.connect(receiver, weak=False)
        self._receivers.append((signal, receiver))

    def play(self) -> None:
        """Let an executor run the task at which the door is misused, and others after it, in the same threads."""
        self.add_bad()
        with kept_connections.of_thread("default"), executing(threads=1, poll_interval=0.02):
            wait_until(has_ended)
            for number in ("1", "2"):
                add(number)
                wait_until(has_ended)

    def check(self) -> None:
        """What was called left a trace, and the runs after the misuse are as if there had been none."""
        assert self.misused == 1
        runs = Counter(TaskRun.objects.values_list("biz_num", flat=True))
        assert self.calls <= runs, "a run without a trace"
        assert (self.calls["1"], self.calls["2"]) == (1, 1)
        good = TaskRun.objects.filter(biz_num__in=("1", "2"))
        assert list(good.values_list("outcome", flat=True)) == [RunOutcome.DONE] * 2, [run.error for run in good]
        effects = set(Task.objects.filter(biz_code=EFFECT).values_list("biz_num", flat=True))
        assert effects >= {"1", "2"}
        assert effects >= self.lasting or self._name not in HARMLESS
        assert self.found <= {""}

    def end(self) -> None:
        for signal, receiver in self._receivers:
            signal.disconnect(receiver)
        kept.clear()
        self.patch.undo()
        Task.objects.all().delete()
        TaskRun.objects.all().delete()


def has_ended() -> bool:
    unended = Task.objects.filter(status__in=(TaskStatus.PENDING, TaskStatus.RUNNING)).exclude(biz_code=EFFECT)
    return not unended.exists()


Door = Callable[[Scene], None]
DOORS: dict[tuple[str, str], Door] = {}
"""By the hook, and how it is reached: registers handlers for the code, and what else leads to the door."""


def made(handle: Callable[[Any], Any], **attributes: Any) -> None:
    """Register a handler that is tried again at once."""
    handler_of(handle, **{"backoff": lambda self, attempt: timedelta(), **attributes})


def door(hook: str, way: str = "") -> Callable[[Door], Door]:
    def enter(make: Door) -> Door:
        DOORS[hook, way] = make
        return make

    return enter


@door("handle")
def plain(scene: Scene) -> None:
    def handle(task: Any) -> None:
        scene.run(task)
        scene.at_door(task.biz_num)

    made(handle)


@door("handle", "atomic")
def atomic(scene: Scene) -> None:
    def handle(task: Any) -> None:
        scene.run(task)
        scene.at_door(task.biz_num)

    made(handle, atomic=True)


@door("handle", "async")
def in_a_coroutine(scene: Scene) -> None:
    async def handle(task: Any) -> None:
        await sync_to_async(scene.run)(task)
        scene.at_door(task.biz_num)

    async_handler_of(handle, backoff=lambda self, attempt: timedelta())


@door("handle", "sync_to_async")
def in_the_thread_for_queries(scene: Scene) -> None:
    async def handle(task: Any) -> None:
        await sync_to_async(scene.run)(task)
        await sync_to_async(scene.at_door)(task.biz_num)

    async_handler_of(handle, backoff=lambda self, attempt: timedelta())


@door("handle", "to_thread")
def in_another_thread(scene: Scene) -> None:
    async def handle(task: Any) -> None:
        await asyncio.to_thread(scene.run, task)
        await asyncio.to_thread(scene.at_door, task.biz_num)

    async_handler_of(handle, backoff=lambda self, attempt: timedelta())


@door("handle_batch")
def batch(scene: Scene) -> None:
    def handle(tasks: list[Any]) -> None:
        for task in tasks:
            scene.run(task)
            scene.at_door(task.biz_num)

    batched(handle, backoff=lambda self, attempt: timedelta())


def _at_run(scene: Scene, signal: Signal) -> None:
    made(scene.run)
    scene.receive(signal, lambda task, **_: scene.at_door(task.biz_num))


@door("run_started")
def before_a_run(scene: Scene) -> None:
    _at_run(scene, signals.run_started)


@door("run_finished")
def after_a_run(scene: Scene) -> None:
    _at_run(scene, signals.run_finished)


@door("task_claimed")
def at_a_claim(scene: Scene) -> None:
    _at_run(scene, signals.task_claimed)


@door("task_claimed", "with permits")
def at_a_claim_with_permits(scene: Scene) -> None:
    _at_run(scene, signals.task_claimed)
    registry.clear()
    made(scene.run, max_concurrent=1)


@door("executor_started")
def at_the_start(scene: Scene) -> None:
    made(scene.run)
    scene.receive(signals.executor_started, lambda **_: scene.at_door())


@door("executor_stopped")
def at_the_end(scene: Scene) -> None:
    made(scene.run)
    scene.receive(signals.executor_stopped, lambda **_: scene.at_door())


@door("tasks_reaped")
def at_a_rescue(scene: Scene) -> None:
    made(scene.run)
    scene.receive(signals.tasks_reaped, lambda **_: scene.at_door())
    dead = registered("dead")
    add("of the dead")
    claim(dead)
    Executor.objects.filter(pk=dead).update(alive=None, status=ExecutorStatus.CRASHED)


def _failing(scene: Scene, **attributes: Any) -> None:
    def handle(task: Any) -> Fail | None:
        scene.run(task)
        return Fail("no") if task.biz_num == BAD else None

    made(handle, **attributes)


@door("task_failed")
def at_a_failure(scene: Scene) -> None:
    _failing(scene)
    scene.receive(signals.task_failed, lambda task, **_: scene.at_door(task.biz_num))


@door("on_failed")
def on_failed(scene: Scene) -> None:
    _failing(scene, on_failed=lambda self, task, error: scene.at_door(task.biz_num))


@door("on_failed", "atomic")
def on_failed_of_an_atomic_run(scene: Scene) -> None:
    _failing(scene, atomic=True, on_failed=lambda self, task, error: scene.at_door(task.biz_num))


@door("the log")
def log(scene: Scene) -> None:
    _failing(scene)
    _log_to(scene)


@door("the log", "atomic")
def log_of_an_atomic_run(scene: Scene) -> None:
    _failing(scene, atomic=True)
    _log_to(scene)


def _log_to(scene: Scene) -> None:
    class ToDatabase(logging.Handler):
        def handle(self, record: Any) -> bool:
            scene.at_door(record.biz_num)
            return True

    logger = logging.getLogger("django_delayed_tasks.run")
    scene.patch.setattr(logger, "handlers", [ToDatabase()])


def _raising(scene: Scene, **hooks: Any) -> None:
    def handle(task: Any) -> None:
        scene.run(task)
        if task.biz_num == BAD and scene.calls[BAD] == 1:
            raise ValueError("again")

    made(handle, **hooks)


@door("backoff")
def backoff(scene: Scene) -> None:
    def wait(self: TaskHandler, attempt: int) -> timedelta:
        scene.at_door()
        return timedelta()

    _raising(scene, backoff=wait)


@door("backoff", "atomic")
def backoff_within_a_transaction(scene: Scene) -> None:
    scene.lasting.add("first try")

    def handle(task: Any) -> Retry | None:
        scene.run(task)
        if task.biz_num != BAD or scene.calls[BAD] > 1:
            return None
        add("first try", EFFECT, when=timedelta(hours=1))
        return Retry(reason="again")

    def wait(self: TaskHandler, attempt: int) -> timedelta:
        scene.at_door()
        return timedelta()

    made(handle, atomic=True, backoff=wait)


@door("backoff", "of a run that hangs")
def backoff_in_the_watchdog(scene: Scene) -> None:
    hangs, given_up = Event(), Event()

    def handle(task: Any) -> None:
        scene.run(task)
        if task.biz_num == BAD and scene.calls[BAD] == 1:
            hangs.set()
            given_up.wait(60)

    def wait(self: TaskHandler, attempt: int) -> timedelta:
        hangs.clear()
        given_up.set()
        scene.at_door()
        return timedelta()

    def is_overdue(running: CurrentRun) -> bool:
        return hangs.is_set() and running.all_tasks[0].biz_num == BAD

    scene.patch.setattr(watchdog, "is_overdue", is_overdue)
    made(handle, timeout=60, backoff=wait)


@door("backoff", "of a task without a key")
def backoff_in_the_lanes(scene: Scene) -> None:
    def of(self: TaskHandler, task: Any) -> str:
        if task.biz_num == BAD and not scene.misused:
            raise ValueError("no key")
        return "key"

    def wait(self: TaskHandler, attempt: int) -> timedelta:
        scene.at_door()
        return timedelta()

    made(scene.run, max_concurrent=1, concurrency_key=of, backoff=wait)


@door("backoff_after")
def backoff_after(scene: Scene) -> None:
    def wait(self: TaskHandler, task: Any, exception: BaseException) -> timedelta:
        scene.at_door()
        return timedelta()

    _raising(scene, backoff_after=wait)


@door("concurrency_key")
def key(scene: Scene) -> None:
    def of(self: TaskHandler, task: Any) -> str:
        scene.at_door(task.biz_num)
        return "key"

    made(scene.run, max_concurrent=1, concurrency_key=of)


@door("MIDDLEWARE")
def around_a_run(scene: Scene) -> None:
    made(scene.run)
    at_middleware[:] = [scene.at_door]
    scene.settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "MIDDLEWARE": [f"{__name__}.middleware"]}


at_middleware: list[Callable[[str], None]] = []


def middleware(call: Any) -> Any:
    def around(run: Any) -> Any:
        at_middleware[0](run.task.biz_num)
        return call(run)

    return around


@door("import")
def of_a_module(scene: Scene) -> None:
    made(scene.run)
    _import_late(scene, "work")


@door("import", "limited")
def of_a_module_of_limited_functions(scene: Scene) -> None:
    made(scene.run, max_concurrent=1)
    _import_late(scene, "limited")


def _import_late(scene: Scene, name: str) -> None:
    """A module that cannot be imported is tried again, here soon."""
    module = "tests.executor.imported_late"
    scene.settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "FUNCTION_MODULES": ["tests.executor"]}
    for user in (admission, lanes):
        scene.patch.setattr(user, "LOOK_AGAIN", 0.05)
    scene.patch.delitem(sys.modules, module, raising=False)
    scene.patch.setattr(sys.modules[__name__], "at_import", lambda: None)
    function = getattr(import_module(module), name)

    def add_unimported() -> None:
        function.enqueue()
        handler = registry.find(f"{module}.{name}")
        assert handler
        registry.withdraw(handler)
        del sys.modules[module]
        scene.patch.setattr(sys.modules[__name__], "at_import", scene.at_door)

    scene.add_bad = add_unimported


def at_import() -> None:
    """Called by the module that is imported late."""


OF_HANDLERS = set(_METHODS)
OF_SIGNALS = {name for name, value in vars(signals).items() if isinstance(value, Signal)} - {"task_added"}
"""``task_added`` is sent to the receivers of the caller, in its thread."""


def test_each_way_in_is_tried() -> None:
    assert {hook for hook, _ in DOORS} == {*OF_HANDLERS, *OF_SIGNALS, "the log", "MIDDLEWARE", "import"}


NOT_TRIED = {
    (("handle", "async"), "an event loop"): "it is the loop of all coroutines, which one would replace on purpose",
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: " ".join(door).strip())
def test_no_misuse_of_a_door_is_met_by_others(door: tuple[str, str], settings: Any) -> None:
    for name in MISUSES:
        if (door, name) in NOT_TRIED:
            continue
        scene = Scene(name, pytest.MonkeyPatch(), settings)
        try:
            with registry.preserved():
                DOORS[door](scene)
                in_thread(scene.play)
            scene.check()
        except BaseException as error:
            error.add_note(f"misuse: {name}")
            raise
        finally:
            scene.end()
