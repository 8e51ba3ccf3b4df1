"""19. A machine whose cores are taken by other processes: no live executor is declared dead with the default lease."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django_delayed_tasks.conf import Values
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import ExecutorStatus
from harness.processes_of_folder import VARIABLE
from harness.torture.calls import database_now
from harness.torture.child import Child
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

RATE = 10.0
"""Calls in a second at most, so 6,000 last for ten minutes; those that were not made by then are left out."""


@register
class Starved(Scenario):
    """``extra`` processes that compute and do nothing else; two databases side by side have twice as many."""

    name = "starved"
    number = 19
    title = "executors with the default lease on a machine that is starved of its cores"
    sizes = {"short": Size(tasks=50, extra=4), "full": Size(tasks=6_000, executors=4, extra=7)}
    settings = {"LEASE": Values().LEASE, "HEARTBEAT": Values().HEARTBEAT}

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors)
        with starving(world):
            world.load.start(world.size.tasks, rate=RATE)
            until, longest = time.monotonic() + world.size.tasks / RATE, 0.0
            while time.monotonic() < until:
                longest = max(longest, longest_silence())
                world.sleep(0.2)
            world.load.finish()
        world.fact(f"the longest time without a heartbeat: {longest:.1f} s of a lease of {Values().LEASE:g} s")
        for row in Executor.objects.filter(status=ExecutorStatus.CRASHED):
            world.violation(f"{row} was alive and was declared dead")


@contextmanager
def starving(world: World) -> Iterator[None]:
    """Inside the block the cores are taken."""
    environment = {**os.environ, VARIABLE: str(world.folder)}
    busy = [
        Child(["-c", "while True: pass"], environment, world.folder / f"busy-{number}.log")
        for number in range(world.size.extra)
    ]
    world.count("process that computes", len(busy))
    try:
        yield
    finally:
        for process in busy:
            process.close()


def longest_silence() -> float:
    """Return the seconds since that live executor renewed its lease which did so longest ago."""
    heartbeats = Executor.objects.filter(alive=True).values_list("heartbeat_at", flat=True)
    now = database_now()
    return max(((now - heartbeat).total_seconds() for heartbeat in heartbeats), default=0.0)
