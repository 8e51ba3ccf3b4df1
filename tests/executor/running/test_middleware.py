"""Middlewares around runs: their order, what they may change, and both kinds of handlers."""

import asyncio
import sys
from contextvars import ContextVar
from threading import Event, current_thread
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from django.core.exceptions import MiddlewareNotUsed
from django.db import transaction
from django.utils.decorators import async_only_middleware, sync_and_async_middleware

from django_delayed_tasks import Done, Fail, TaskRun
from django_delayed_tasks.exceptions import InvalidSetting
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import middleware
from django_delayed_tasks.models import Executor as Row
from django_delayed_tasks.models import Success
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.support import forks
from tests.executor.batches import batched
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, drain, executing, handler_of
from tests.pages import ROOT, blocks
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("live_db"), pytest.mark.same_everywhere]

HERE = __name__
events: list[str] = []
tenant: ContextVar[str] = ContextVar("tenant", default="none")


@pytest.fixture(autouse=True)
def _no_events() -> None:
    events.clear()
    go_on.clear()


@pytest.fixture
def use(settings: Any) -> Any:
    """``use(*names)``: the middlewares of this module, the outermost first."""

    def use(*names: str) -> None:
        paths = [f"{HERE}.{name}" for name in names]
        settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "MIDDLEWARE": paths}

    return use


def noting(name: str) -> Any:
    """A middleware that notes its calls, for both kinds of handlers."""

    @sync_and_async_middleware
    def factory(call: Any) -> Any:
        if iscoroutinefunction(call):

            async def acall(run: Any) -> Any:
                events.append(f"{name} before {run.task.biz_num}")
                try:
                    return await call(run)
                finally:
                    events.append(f"{name} after")

            return acall

        def plain(run: Any) -> Any:
            events.append(f"{name} before {run.task.biz_num}")
            try:
                return call(run)
            finally:
                events.append(f"{name} after")

        return plain

    return factory


outer, inner = noting("outer"), noting("inner")


def plain_only(call: Any) -> Any:
    assert not iscoroutinefunction(call)

    def plain(run: Any) -> Any:
        tenant.set("set by a middleware")
        events.append("plain_only")
        return call(run)

    return plain


@async_only_middleware
def async_only(call: Any) -> Any:
    assert iscoroutinefunction(call)

    async def acall(run: Any) -> Any:
        await asyncio.sleep(0)
        events.append("async_only")
        return await call(run)

    return acall


go_on = Event()


def held_up(call: Any) -> Any:
    def plain(run: Any) -> Any:
        assert go_on.wait(60)
        try:
            return call(run)
        finally:
            events.append("left")

    return plain


def instead(call: Any) -> Any:
    return lambda run: Fail("closed")


def with_result(call: Any) -> Any:
    def changed(run: Any) -> Any:
        call(run)
        return Done(result="changed")

    return changed


def raising(call: Any) -> Any:
    def refuse(run: Any) -> Any:
        raise ValueError("refused")

    return refuse


def writing(call: Any) -> Any:
    def write(run: Any) -> Any:
        Success.objects.create(biz_code="middleware", biz_num="1", succeeded_at="2030-01-01T00:00Z")
        events.append(f"in a transaction: {transaction.get_connection().in_atomic_block}")
        return call(run)

    return write


def unused(call: Any) -> Any:
    raise MiddlewareNotUsed


def broken(call: Any) -> Any:
    raise KeyError("setting")


def nothing(call: Any) -> Any:
    return None


def outcome() -> tuple[RunOutcome, str]:
    run = TaskRun.objects.get()
    return RunOutcome(run.outcome), run.error.strip().rpartition("\n")[2]


def plain_handler(**attributes: Any) -> None:
    handler_of(lambda task: events.append(f"handle {tenant.get()} {current_thread().name}"), **attributes)


def async_handler(**attributes: Any) -> None:
    async def handle(task: Any) -> None:
        events.append(f"handle {tenant.get()} {current_thread().name}")

    async_handler_of(handle, **attributes)


kinds = pytest.mark.parametrize("kind", [plain_handler, async_handler])


@kinds
def test_in_order(use: Any, kind: Any) -> None:
    use("outer", "unused", "inner")
    kind()
    add("7")
    drain(threads=1)
    [handled] = [event for event in events if event.startswith("handle")]
    assert events == ["outer before 7", "inner before 7", handled, "inner after", "outer after"]
    assert outcome() == (RunOutcome.DONE, "")


@kinds
@pytest.mark.parametrize("name", ["plain_only", "async_only"])
def test_each_is_called_around_both_kinds_of_handlers(use: Any, kind: Any, name: str) -> None:
    use("outer", name, "inner")
    kind()
    add("7")
    drain(threads=1)
    place = "event loop" if kind is async_handler else "worker-1"
    seen = "set by a middleware" if name == "plain_only" else "none"
    between = [name, "inner before 7", f"handle {seen} {place}", "inner after"]
    assert [event.replace("worker-0", "worker-1") for event in events] == ["outer before 7", *between, "outer after"]
    assert outcome() == (RunOutcome.DONE, "")


def test_a_plain_one_takes_no_thread_that_the_async_handlers_need(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    begun: list[str] = []

    async def handle(task: Any) -> None:
        begun.append(task.biz_num)
        while len(begun) < 8:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(events.append, "in a thread")

    use("plain_only")
    async_handler_of(handle)
    for number in range(8):
        add(str(number))
    drain(threads=1)
    assert events.count("in a thread") == 8


def test_a_plain_one_does_not_call_the_handler_after_the_run_was_cancelled(use: Any) -> None:
    use("held_up")
    async_handler(timeout=0.1, max_attempts=1)
    add()
    with executing(threads=1):
        wait_until(TaskRun.objects.exists)
        go_on.set()
        wait_until(lambda: events)
    assert events == ["left"]
    assert outcome() == (RunOutcome.FAILED, "TaskTimeout: the run took longer than 0.1 s")


@kinds
def test_it_may_answer_instead_of_the_handler(use: Any, kind: Any) -> None:
    use("instead")
    kind()
    add()
    drain()
    assert (events, outcome()) == ([], (RunOutcome.FAILED, "closed"))


def test_it_may_change_the_outcome(use: Any) -> None:
    use("with_result")
    plain_handler()
    add()
    drain()
    assert TaskRun.objects.get().result == "changed"


@kinds
def test_what_it_raises_ends_the_run(use: Any, kind: Any) -> None:
    use("outer", "raising")
    kind(max_attempts=1)
    add()
    drain()
    assert events == ["outer before 1", "outer after"]
    assert outcome() == (RunOutcome.FAILED, "ValueError: refused")


@pytest.mark.parametrize("raises", [False, True])
def test_what_it_writes_is_part_of_an_atomic_run(use: Any, raises: bool) -> None:
    def handle(task: Any) -> None:
        if raises:
            raise ValueError

    use("writing")
    handler_of(handle, atomic=True, max_attempts=1)
    add()
    drain()
    assert events == ["in a transaction: True"]
    assert Success.objects.filter(biz_code="middleware").count() == (0 if raises else 1)


def test_a_batch_is_one_call(use: Any) -> None:
    use("outer")
    batched(lambda tasks: events.append(f"{len(tasks)} tasks"))
    for number in "123":
        add(number)
    drain(threads=1)
    assert events == ["outer before 1", "3 tasks", "outer after"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "broken: KeyError: 'setting'"),
        ("missing", "missing: ImportError"),
        ("nothing", "nothing: TypeError: its factory returned None"),
    ],
)
def test_no_executor_starts_with_a_broken_one(use: Any, name: str, said: str) -> None:
    use("outer", name)
    with pytest.raises(InvalidSetting) as caught:
        Executor(ExecutorOptions(name="broken")).start()
    assert f"DELAYED_TASKS['MIDDLEWARE']: {HERE}.{said}" in str(caught.value)
    assert not Row.objects.exists()


def test_without_middlewares_the_handler_is_called_directly() -> None:
    assert middleware._chain() is middleware._handle
    assert middleware._achain() is middleware._ahandle


def test_a_forked_child_builds_its_own(use: Any) -> None:
    use("outer")
    chains = middleware._chain(), middleware._achain()
    for forget in forks._forgetting:
        if forget.__module__ == middleware.__name__:
            forget()
    assert (middleware._chain() is chains[0], middleware._achain() is chains[1]) == (False, False)


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """The middlewares of docs/how-to/middleware.md, in the modules and in the order that it says."""
    settings_block, code_block = blocks(ROOT / "docs/how-to/middleware.md", "python")
    package, module = ModuleType("shop"), ModuleType("shop.task_middleware")
    exec(code_block.text, vars(module))
    monkeypatch.setitem(sys.modules, "shop", package)
    monkeypatch.setitem(sys.modules, "shop.task_middleware", module)
    chosen: dict[str, Any] = {}
    exec(settings_block.text, chosen)
    settings.DELAYED_TASKS = chosen["DELAYED_TASKS"] | {"ALLOW_UNKNOWN_CODES": True}


@kinds
@pytest.mark.usefixtures("documented")
def test_the_example_of_the_documentation(kind: Any, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="shop.task_middleware")
    kind()
    add("open")
    settings.CLOSED_QUEUES = ["closed"]
    add("closed", queue="closed")
    drain(threads=1)
    assert len([event for event in events if event.startswith("handle")]) == 1
    outcomes = dict(TaskRun.objects.values_list("biz_num", "outcome"))
    assert outcomes == {"open": RunOutcome.DONE, "closed": RunOutcome.RESCHEDULED}
    assert len([text for text in caplog.messages if " took 0." in text]) == 2
