"""Parts of an executor for tests: handlers, claims, and an executor whose loops the test turns by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django_delayed_tasks.api import add_task
from django_delayed_tasks.executor.claiming.lookahead import Lookahead
from django_delayed_tasks.executor.executor import Executor
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.room.capacity import Capacity
from django_delayed_tasks.handlers import TaskHandler, register_task_handler
from django_delayed_tasks.models import Task
from django_delayed_tasks.store import executors
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.claiming.request import ClaimRequest
from django_delayed_tasks.store.claiming.strategies import strategy_for
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.testing.executing.stand_ins import AwaitedHere


def handler_of(handle: Callable[[Any], Any], code: str = "code", **attributes: Any) -> TaskHandler:
    """A registered handler that calls ``handle(task)``."""
    members = {"biz_code": code, "handle": lambda self, task: handle(task), **attributes}
    return register_task_handler(type("Handler", (TaskHandler,), members)())


def add(num: str = "1", code: str = "code", **fields: Any) -> int:
    """Add a task that is due at once unless ``when`` says otherwise; its id."""
    task_id: int = add_task(Task(biz_code=code, biz_num=num, **fields)).task_id
    return task_id


def registered(
    name: str = "test",
    codes: tuple[str, ...] = (),
    lease: float = 15.0,
    queues: tuple[str, ...] | None = None,
    exclude_queues: tuple[str, ...] = (),
) -> int:
    """The id of a live executor row."""
    identity = executors.Registration(name, "elsewhere", 1, 1, codes, queues, exclude_queues)
    return executors.register("default", identity, timedelta(seconds=lease), lambda host, pid: False)


def claim(
    executor: int, limit: int = 100, queue: str = "default", priority: int = 0, lane: str = ""
) -> list[ClaimedTask]:
    """Claim due tasks for this executor."""
    return strategy_for("default", "auto")("default", ClaimRequest(executor, queue, priority, limit, lane=lane))


def claim_one(**fields: Any) -> ClaimedTask:
    """A claimed task."""
    add(**fields)
    [task] = claim(registered())
    return task


def held_with(options: ExecutorOptions) -> Held:
    """The claims of an executor without its other parts."""
    return Held("default", Capacity(options))


class Steady(Lease):
    """A lease that was renewed for long enough to tell a death from a pause of the database."""

    is_steady = True


class OnTime(Lookahead):
    """Claims nothing before it is due."""

    length = timedelta()


class Noted(AwaitedHere):
    """Notes the batches that are put on the event loop, and starts none."""

    @property
    def numbers(self) -> list[str]:
        """The numbers of the tasks, in order."""
        return [task.biz_num for batch in self.batches for task in batch]


class Bench(Executor):
    """An executor without its threads: the test turns the loops, takes what was queued, and settles."""

    awaited: Noted

    def __init__(self, name: str = "bench", lookahead: type[Lookahead] = OnTime, **options: Any) -> None:
        chosen = ExecutorOptions(name=name, **options)
        super().__init__(chosen, lease=Steady(chosen), awaited=Noted, lookahead=lookahead)
        self.lease.acquire()
        self._delivered: list[ClaimedTask] = []
        self._ended: list[Settlement] = []

    @property
    def delivered(self) -> list[ClaimedTask]:
        """What was queued for threads so far, in order."""
        self._delivered += self.queue.take_back()
        return self._delivered

    @property
    def released(self) -> list[Settlement]:
        """What was released so far; only :meth:`settle` writes it to the database."""
        self._take_ended()
        return self._ended

    def settle(self) -> None:
        """Settle what was released since the last call."""
        settle("default", self._take_ended())

    def _take_ended(self) -> list[Settlement]:
        taken: list[Settlement] = []
        while not self.held.ended.empty():
            settlement = self.held.ended.get()
            assert settlement
            taken.append(settlement)
        self.held.remove(settlement.claim for settlement in taken)
        self._ended += taken
        return taken

    @property
    def numbers(self) -> list[str]:
        """The numbers of what was delivered, in order."""
        return [task.biz_num for task in self.delivered]

    def finish(self, tasks: list[ClaimedTask], seconds: float = 0.0) -> None:
        """End the runs of these tasks after ``seconds`` each, without settling them in the database."""
        for task in tasks:
            self.held.end([task.claim], (), seconds)
        self.held.remove([task.claim for task in tasks])

    def poll_all(self) -> None:
        """Poll until nothing is claimed any more."""
        for _ in range(50):
            if self.poller.poll() and not self.held.capacity.unfinished:
                return
            self.finish(self.delivered[-len(self.held) :])
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
