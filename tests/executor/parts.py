"""Parts of an executor for tests: handlers, claims, and an executor whose loops the test turns by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django_delayed_tasks.api import add_task
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.claiming.poller import Poller
from django_delayed_tasks.executor.claiming.unknown_codes import UnknownCodes
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.handlers import TaskHandler, register_task_handler
from django_delayed_tasks.models import Task
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settlement import Settlement


def handler_of(handle: Callable[[Any], Any], code: str = "code", **attributes: Any) -> TaskHandler:
    """A registered handler that calls ``handle(task)``."""
    members = {"biz_code": code, "handle": lambda self, task: handle(task), **attributes}
    return register_task_handler(type("Handler", (TaskHandler,), members)())


def add(num: str = "1", code: str = "code", **fields: Any) -> int:
    """Add a task that is due at once unless ``when`` says otherwise; its id."""
    task_id: int = add_task(Task(biz_code=code, biz_num=num, **fields)).task_id
    return task_id


def registered(
    name: str = "test", codes: tuple[str, ...] = (), lease: float = 15.0, queues: tuple[str, ...] | None = None
) -> int:
    """The id of a live executor row."""
    identity = executors.Identity(name, "elsewhere", 1, 1, codes, queues)
    return executors.register("default", identity, timedelta(seconds=lease), lambda host, pid: False)


def claim(executor: int, limit: int = 100, queue: str = "default", priority: int = 0) -> list[ClaimedTask]:
    """Claim due tasks for this executor."""
    return strategy_for("default", "auto")("default", ClaimRequest(executor, queue, priority, limit))


def claim_one(**fields: Any) -> ClaimedTask:
    """A claimed task."""
    add(**fields)
    [task] = claim(registered())
    return task


class Bench:
    """A poller with the parts around it, that delivers into lists instead of threads."""

    def __init__(self, **options: Any) -> None:
        self.options = ExecutorOptions(name="bench", **options)
        self.lease = Lease(self.options)
        self.lease.acquire()
        self.inflight = InFlight()
        self.rank = Peers()
        self.screening = UnknownCodes(self.rank)
        self.clock = DatabaseClock()
        self.delivered: list[ClaimedTask] = []
        self.released: list[Settlement] = []
        self.poller = Poller(
            self.options,
            self.lease,
            self.inflight,
            self.screening,
            self.rank,
            self.clock,
            self.delivered.extend,
            self._release,
        )

    def _release(self, settlements: list[Settlement]) -> None:
        self.released += settlements
        for settlement in settlements:
            self.inflight.give_back(settlement.claim)
        self.inflight.remove([settlement.claim for settlement in settlements])

    @property
    def numbers(self) -> list[str]:
        """The numbers of what was delivered, in order."""
        return [task.biz_num for task in self.delivered]

    def finish(self, tasks: list[ClaimedTask], seconds: float = 0.0) -> None:
        """Their runs ended after so long each, and were settled."""
        for task in tasks:
            self.inflight.finish([task.claim], seconds)
        self.inflight.remove([task.claim for task in tasks])

    def poll_all(self) -> None:
        """Poll until nothing is claimed any more."""
        for _ in range(50):
            if self.poller.poll():
                return
            self.finish(self.delivered[-len(self.inflight) :])
        raise AssertionError("the poller never stops claiming")

    def end(self) -> None:
        """Give the lease back."""
        self.lease.end()


@contextmanager
def executing(**options: Any) -> Iterator[Executor]:
    """A whole executor with its threads, ended at the end."""
    chosen: dict[str, Any] = {"name": "executing", "threads": 2, "poll_interval": 0.05, "shutdown_timeout": 10.0}
    executor = Executor(ExecutorOptions(**(chosen | options)))
    executor.start()
    try:
        yield executor
    finally:
        executor.stop()


def drain(**options: Any) -> None:
    """Let an executor do all that is due."""
    with executing(drain=True, **{"poll_interval": 0.01, **options}) as executor:
        assert executor.drained.wait(60)
