"""Lanes on a bench: what was claimed waits in lists instead of threads, and the test turns the loops by hand."""

from typing import Any

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import NextState
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import Bench, add, handler_of


class LanesBench(Bench):
    """A poller, lanes, and the database; no threads. There is room for ``threads`` runs at a time."""

    def __init__(self, name: str = "bench", threads: int = 8, **options: Any) -> None:
        super().__init__(name, threads=threads, **options)
        self.ended: list[ClaimedTask] = []

    def turn(self) -> None:
        """Run the poller's next iteration, then that of the lanes, and settle what these have released."""
        self.poller.poll()
        self.tick()

    def tick(self) -> float:
        """Run the next iteration of the lanes and settle what it has released; return how long they sleep."""
        seconds = self.lanes.tick()
        self.settle()
        return seconds

    @property
    def running(self) -> list[ClaimedTask]:
        """The tasks that run, in the order of their start."""
        return [task for task in self.delivered if task not in self.ended]

    @property
    def numbers(self) -> list[str]:
        """The numbers of what runs, in the order of their start."""
        return [task.biz_num for task in self.running]

    @property
    def failed(self) -> list[Settlement]:
        """How tasks ended without a run."""
        return [settlement for settlement in super().released if settlement.then is not NextState.RELEASED]

    @property
    def released(self) -> list[Settlement]:
        """What has been released."""
        return [settlement for settlement in super().released if settlement.then is NextState.RELEASED]

    def end_run(self, number: str, settlement: Settlement) -> None:
        """End the run of this task."""
        task = self.run_of(number)
        self.held.free_resource(task)
        settle("default", [settlement])
        self.held.end([task.claim], ())
        self.held.remove([task.claim])
        self.ended.append(task)

    def run_of(self, number: str) -> ClaimedTask:
        """Return the running task with this number."""
        [task] = [task for task in self.running if task.biz_num == number]
        return task


def attempts() -> set[int]:
    """Return the attempt counters of the tasks that wait."""
    return set(Task.objects.filter(status=0).values_list("attempts", flat=True))


def limited(code: str = "code", **limits: Any) -> None:
    handler_of(lambda task: None, code, **limits)


def add_some(count: int, code: str = "code", prefix: str = "", **fields: Any) -> None:
    for number in range(count):
        add(f"{prefix}{number}", code, **fields)
