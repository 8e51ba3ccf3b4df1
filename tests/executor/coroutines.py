"""Async handlers for tests, and what coroutines and tests tell each other."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any

from django_delayed_tasks.handlers import TaskHandler, register_task_handler


def async_handler_of(handle: Callable[[Any], Awaitable[Any]], code: str = "code", **attributes: Any) -> TaskHandler:
    """A registered handler that awaits ``handle(task)``."""

    async def call(self: TaskHandler, task: Any) -> Any:
        return await handle(task)

    return register_task_handler(type("AsyncHandler", (TaskHandler,), {"biz_code": code, "handle": call, **attributes}))


class Waiting:
    """A handler that waits until the test says so, or until it is cancelled."""

    def __init__(self, code: str = "code", **attributes: Any) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self._go_on = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.handler = async_handler_of(self.handle, code, **attributes)

    async def handle(self, task: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self.begun.append(task.biz_num)
        try:
            await self._go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.append(task.biz_num)
            raise

    def go_on(self) -> None:
        """Let all of them return."""
        assert self._loop
        self._loop.call_soon_threadsafe(self._go_on.set)


class Blocking:
    """A plain handler that keeps its thread until the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._go_on = Event()

    def handle(self, task: Any) -> None:
        self.begun.append(task.biz_num)
        assert self._go_on.wait(60)

    def go_on(self) -> None:
        """Let all of them return."""
        self._go_on.set()
