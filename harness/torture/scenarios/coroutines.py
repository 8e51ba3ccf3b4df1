"""Async runs next to others in the same executors, which are killed, and told to end while runs wait."""

import json

from harness.torture.codes import COROUTINES, paths_of
from harness.torture.faults.processes import Kill, Terminate
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

CODES = ("t-async", "t-async", "t-async", "t-plain", "t-slow", "t-atomic", "t-retrying", "t-again")
PAUSES = (0.2, 1.0)
"""Seconds between two faults, from and to."""


@register
class Coroutines(Scenario):
    name = "coroutines"
    number = 20
    title = "async runs, cancelled by SIGTERM and cut off by SIGKILL, next to runs in threads"
    sizes = {
        "short": Size(tasks=300, faults=4, executors=2, threads=2),
        "full": Size(tasks=20_000, faults=150, executors=3, threads=4),
    }
    settings = {"SHUTDOWN_TIMEOUT": 0.1, "ASYNC_CONCURRENCY": 50}

    def run(self, world: World) -> None:
        world.load.codes = CODES
        environment = {"DDT_TORTURE_HANDLERS": json.dumps(paths_of(COROUTINES))}
        settings = {**self.settings, "THREADS": world.size.threads}
        world.cluster.start_many(world.size.executors, environment=environment, settings=settings)
        world.load.start(world.size.tasks, rate=80)
        faults = [Kill(), Terminate()]
        for _ in range(world.size.faults):
            world.inject(world.random.choice(faults))
            world.sleep(world.random.uniform(*PAUSES))
        world.load.finish()
