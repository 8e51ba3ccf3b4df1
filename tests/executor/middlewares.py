"""Middlewares that note their calls, for tests, and handlers that note theirs."""

import asyncio
from contextvars import ContextVar
from threading import current_thread
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import MiddlewareNotUsed
from django.db import transaction
from django.utils.decorators import async_only_middleware, sync_and_async_middleware

from django_delayed_tasks import Done, Fail, TaskRun
from django_delayed_tasks.models import Success
from django_delayed_tasks.states import RunOutcome
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import handler_of

events: list[str] = []
tenant: ContextVar[str] = ContextVar("tenant", default="none")


def begin() -> None:
    """Forget what was noted before."""
    events.clear()


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


@sync_and_async_middleware
def instead(call: Any) -> Any:
    async def acall(run: Any) -> Any:
        return Fail("closed")

    return acall if iscoroutinefunction(call) else lambda run: Fail("closed")


def with_result(call: Any) -> Any:
    def changed(run: Any) -> Any:
        call(run)
        return Done(result="changed")

    return changed


@sync_and_async_middleware
def raising(call: Any) -> Any:
    def refuse(run: Any) -> Any:
        raise ValueError("refused")

    async def arefuse(run: Any) -> Any:
        raise ValueError("refused")

    return arefuse if iscoroutinefunction(call) else refuse


def writing(call: Any) -> Any:
    def write(run: Any) -> Any:
        Success.objects.create(biz_code="middleware", biz_num="1", succeeded_at="2030-01-01T00:00Z")
        events.append(f"in a transaction: {transaction.get_connection().in_atomic_block}")
        return call(run)

    return write


@sync_and_async_middleware
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
