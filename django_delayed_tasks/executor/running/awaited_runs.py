"""The current runs of async handlers: each is a coroutine on the executor's event loop and takes no worker thread."""

import asyncio
import sys
from contextlib import suppress
from typing import Any, Final, Protocol

from asgiref.sync import sync_to_async

from django_delayed_tasks import clock
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor import project
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import EVENT_LOOP, Capacity
from django_delayed_tasks.executor.room.lines import Batch
from django_delayed_tasks.executor.running.current_run import CurrentRun, Lent
from django_delayed_tasks.executor.running.deciding import GivenBack
from django_delayed_tasks.executor.running.event_loop import EventLoop
from django_delayed_tasks.executor.threads.loop import Backoff
from django_delayed_tasks.store.settling.settlement import stopped
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.support.durations import plural
from django_delayed_tasks.support.logs import Log

logger = Log(__name__)

GRACE: Final = 1.0
"""Seconds for each step of a stop at least: cancelled runs end, ends of runs are written, failures are reported."""
BLOCKED: Final = 0.25
"""Seconds after which a loop that does not answer is blocked. The watchdog asks five times a second, so a handler that
blocks the loop for 0.6 seconds is always seen."""
COMPLAIN_EVERY: Final = 60.0
"""Seconds between two warnings about the same code."""


class Performs(Protocol):
    """Performs a run, or gives its tasks back; see the methods of the ``Performer`` in ``worker.py``."""

    async def aperform(self, running: CurrentRun) -> None: ...

    async def arelease(self, running: CurrentRun) -> None: ...

    def released(self, running: CurrentRun) -> Lent: ...

    def give_back(self, lent: Lent) -> None: ...

    def claims_are_gone(self, running: CurrentRun) -> bool: ...

    def fail_run(self, running: CurrentRun, error: BaseException) -> None: ...


class AwaitedRuns:
    """Starts runs on the event loop, ``async_concurrency`` at a time, and cancels them; thread-safe."""

    def __init__(self, options: ExecutorOptions, capacity: Capacity) -> None:
        self._capacity = capacity
        self.loop = EventLoop(options.database)
        self._alias = options.database
        self._name = options.name
        self._reconnecting = asyncio.Lock()
        self._slots = asyncio.Semaphore(options.async_concurrency)
        self._performer: Performs | None = None
        self._in_slots: set[CurrentRun] = set()
        self._tasks: dict[CurrentRun, asyncio.Task[None]] = {}
        self._abandoned: dict[CurrentRun, float] = {}
        self._complained: dict[str, float] = {}

    def start(self, performer: Performs) -> None:
        """Let this performer do the runs; the loop is started with the first of them."""
        self._performer = performer

    def put(self, batch: Batch) -> None:
        """Start a run as soon as there is room for it."""
        self.loop.call_soon(self._begin, CurrentRun(batch, clock.monotonic()))

    def _begin(self, running: CurrentRun) -> None:
        task = self.loop.create_task(self._live(running), running)
        self._tasks[running] = task
        task.add_done_callback(lambda _: self._forget(running))

    def _forget(self, running: CurrentRun) -> None:
        del self._tasks[running]
        self._abandoned.pop(running, None)

    async def _live(self, running: CurrentRun) -> None:
        assert self._performer
        try:
            await self._slots.acquire()
            self._in_slots.add(running)
            if self.loop.queries.is_connected or await self._connects():
                await self._performer.aperform(running)
            else:
                await self._postpone(self._performer, running)
        except asyncio.CancelledError:  # before the handler was called
            await self._performer.arelease(running)
        except GeneratorExit:  # the loop is closed, and the run was left behind
            raise
        except BaseException as error:
            logger.exception("running %s failed", running)
            self._performer.fail_run(running, error)
        finally:
            self._leave_slot(running)

    async def _connects(self) -> bool:
        """Open the connection for the queries of coroutines; return False if it cannot be opened now."""
        if self._capacity.is_loop_unconnected:
            return False
        if error := await sync_to_async(kept_connections.failure_to_open)(self._alias):
            self._capacity.lose_connection(EVENT_LOOP, error)
        return error is None

    async def _postpone(self, performer: Performs, running: CurrentRun) -> None:
        """Release the tasks of a run that cannot connect, and keep their resources until a connection can be opened."""
        lent = performer.released(running)
        self._leave_slot(running)
        try:
            async with self._reconnecting:
                await self._reconnect()
        finally:
            if lent:
                await sync_to_async(performer.give_back)(lent)

    async def _reconnect(self) -> None:
        """Wait until the queries of coroutines have a connection; one run does so for all."""
        backoff = Backoff()
        while self._capacity.is_loop_unconnected:
            await asyncio.sleep(backoff.failed())
            if not await sync_to_async(kept_connections.failure_to_open)(self._alias):
                self._capacity.regain_connection(EVENT_LOOP)

    def _leave_slot(self, running: CurrentRun) -> None:
        if running in self._in_slots:
            self._in_slots.remove(running)
            self._slots.release()

    def count_lost(self) -> int:
        """Return how many runs do not end, although their tasks were taken from them ``GRACE`` seconds ago or more."""
        latest = clock.monotonic() - GRACE
        return sum(since <= latest for running, since in list(self._abandoned.items()) if running in self._tasks)

    def current(self) -> list[CurrentRun]:
        """Return the current runs."""
        return [running for running in list(self._tasks) if running.has_begun and running.owns_tasks]

    def cancel(self, running: CurrentRun, error: BaseException) -> None:
        """Raise CancelledError in the run's handler; if it lets that pass, the run has ended with ``error``."""
        with suppress(RuntimeError):  # the loop is closed, since the executor stops
            self.loop.call_soon(self._cancel, running, error)

    def _cancel(self, running: CurrentRun, error: BaseException) -> None:
        running.interrupted = error
        if running.is_abandoned:
            self._leave_slot(running)  # its task no longer counts, and another run may have its place
            self._abandoned[running] = clock.monotonic()
        if running.call is not None:
            running.call.cancel()
        elif running.is_waiting and (task := self._tasks.get(running)):
            task.cancel()

    def watch(self) -> None:
        """Cancel the runs whose claims are lost; warn of a run that blocks the loop."""
        if not self.loop.is_running or not self._performer:
            return
        for running in self.current():
            if running.interrupted is None and self._performer.claims_are_gone(running):
                self.cancel(running, ClaimLost(f"{running}: the claim is gone"))
        self._look_for_block()

    def _look_for_block(self) -> None:
        seconds = self.loop.seconds_blocked()
        if seconds < BLOCKED or not (task := self.loop.current_task()):
            return
        name, code = self._run_of(task)
        if clock.monotonic() - self._complained.get(code, float("-inf")) >= COMPLAIN_EVERY:
            self._complained[code] = clock.monotonic()
            logger.warning(
                "%s blocks the event loop, for %.1f s so far: call what blocks with sync_to_async\n%s",
                name, seconds, self.loop.stack(),
            )  # fmt: skip

    def _run_of(self, task: "asyncio.Task[Any]") -> tuple[str, str]:
        """Return the name of the run that ``task`` belongs to, and its code; a handler may create further tasks."""
        if sys.version_info >= (3, 12):
            caller = project.caller_in(task.get_context())
            running = caller if isinstance(caller, CurrentRun) else None
        else:  # a task that a handler has created is shown with its own name
            runs = list(self._tasks.items())
            running = next((running for running, its_task in runs if task in (its_task, running.call)), None)
        tasks = running.tasks if running else []
        return (str(tasks[0]), tasks[0].biz_code) if tasks else (task.get_name(), "")

    def finish(self, timeout: float) -> None:
        """Wait ``timeout`` seconds for current runs to end, then cancel them."""
        if not self.loop.is_running:
            return
        future = asyncio.run_coroutine_threadsafe(self._finish(max(0.0, timeout)), self.loop.start())
        try:
            with suppress(TimeoutError):  # the loop is blocked
                future.result(max(0.0, timeout) + 2 * GRACE)
        finally:
            self.loop.stop()

    async def _finish(self, timeout: float) -> None:
        end = GivenBack(stopped(self._name))
        for running in list(self._tasks):
            if not running.has_begun:
                self._cancel(running, end)
        await self._wait(timeout)
        if left := self.current():
            runs = f"{len(left)} async {plural(len(left), 'run')}"
            logger.warning("cancelling %s that did not end in time, such as %s", runs, left[0].with_age)
        for running in left:
            self._cancel(running, end)
        await self._wait(GRACE)

    async def _wait(self, timeout: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=timeout)
