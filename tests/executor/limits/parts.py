"""A gate on a bench: tasks are claimed and delivered into lists, the test turns the loops by hand."""

from typing import Any

from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.executor.claiming.poller import Poller
from django_delayed_tasks.executor.claiming.unknown_codes import UnknownCodes
from django_delayed_tasks.executor.inflight import InFlight
from django_delayed_tasks.executor.limits.gate import Gate
from django_delayed_tasks.executor.limits.permits import give_back_resource
from django_delayed_tasks.executor.membership.lease import Lease
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import add, handler_of


class GateBench:
    """A poller, a gate, and the database; no threads. ``threads`` runs at a time have room."""

    def __init__(self, name: str = "bench", threads: int = 8, **options: Any) -> None:
        self.options = ExecutorOptions(name=name, threads=threads, **options)
        self.lease = Lease(self.options)
        self.lease.acquire()
        self.inflight = InFlight()
        self.running: list[ClaimedTask] = []
        self.released: list[Settlement] = []
        self.failed: list[Settlement] = []
        self.gate = Gate(
            self.options,
            self.inflight,
            self.lease,
            DatabaseClock(),
            lambda: threads - len(self.running),
            self.running.extend,
            self._release,
            self.failed.append,
        )
        rank = Peers()
        self.poller = Poller(
            self.options,
            self.lease,
            self.inflight,
            UnknownCodes(rank),
            rank,
            DatabaseClock(),
            self.gate.admit,
            self._release,
            self.gate,
        )

    def turn(self) -> None:
        """The poller's next iteration, then the gate's."""
        self.poller.poll()
        self.gate.tick()

    def _release(self, settlements: list[Settlement]) -> None:
        self.released += settlements
        for settlement in settlements:
            if task := self.inflight.get(settlement.claim):
                give_back_resource(task)
            self.inflight.give_back(settlement.claim)
        settle("default", settlements)
        self.inflight.remove([settlement.claim for settlement in settlements])

    @property
    def numbers(self) -> list[str]:
        """The numbers of what runs, in the order of their start."""
        return [task.biz_num for task in self.running]

    def end_run(self, number: str, settlement: Settlement) -> None:
        """The run of this task ends so."""
        [task] = [task for task in self.running if task.biz_num == number]
        give_back_resource(task)
        settle("default", [settlement])
        self.inflight.finish([task.claim])
        self.inflight.remove([task.claim])
        self.running.remove(task)

    def run_of(self, number: str) -> ClaimedTask:
        """What runs under this number."""
        [task] = [task for task in self.running if task.biz_num == number]
        return task


def attempts() -> set[int]:
    """What is counted of the tasks that wait."""
    return set(Task.objects.filter(status=0).values_list("attempts", flat=True))


def limited(code: str = "code", **limits: Any) -> None:
    handler_of(lambda task: None, code, **limits)


def add_some(count: int, code: str = "code", prefix: str = "", **fields: Any) -> None:
    for number in range(count):
        add(f"{prefix}{number}", code, **fields)
