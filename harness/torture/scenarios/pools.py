"""18. Django's connection pool, for executors and for callers: nothing stands still because it lacks a connection."""

from datetime import timedelta
from random import Random

from harness.torture.codes import MIXED
from harness.torture.crowd import Crowd
from harness.torture.faults.servers import BackendsKilled
from harness.torture.pooling import POOLED, use_pool
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

THREADS = 8
"""The threads of each executor: more than the pool has connections."""
ADDING = 6
"""Threads that share a pool of four."""


@register
class Pools(Scenario):
    name = "pools"
    number = 18
    title = 'executors of eight threads with "pool": True, and six threads that add with a pool of four'
    databases = frozenset({"postgres"})
    sizes = {"short": Size(tasks=20, faults=1, executors=1), "full": Size(tasks=300, faults=20, executors=2)}
    """``tasks``: of each thread that adds."""

    def run(self, world: World) -> None:
        world.cluster.start_many(world.size.executors, environment=POOLED, settings={"THREADS": THREADS})
        crowd = Crowd(world)
        crowd.add(ADDING, lambda dice: add(world, dice), world.size.tasks, begin=use_pool)
        for _ in range(world.size.faults):
            world.sleep(0.5)
            world.inject(BackendsKilled())
        world.wait_until(lambda: not crowd.is_going_on, "every call to be answered")
        crowd.finish()


def add(world: World, dice: Random) -> None:
    """Add one task that is due within a second."""
    num = f"{dice.getrandbits(40):x}"
    world.caller.add(dice.choice(MIXED), num, timedelta(seconds=dice.random()), {"seconds": 0.1, "fail": 1})
