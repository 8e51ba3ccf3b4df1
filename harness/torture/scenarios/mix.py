"""Everything at random: ten thousand mixed tasks, all faults that there are, for as long as is given."""

import time

from harness.torture.codes import MISUSING, MIXED
from harness.torture.faults.base import Fault, faults_of_mix
from harness.torture.looking import any_is_done
from harness.torture.pooling import POOLED
from harness.torture.scenario import Scenario, Size, register
from harness.torture.world import World

CODES = (*MIXED * 6, "t-silent", "t-hanging", "t-fatal", *MISUSING)
REST = 0.08
"""The part of the time given that is kept for draining."""
PAUSES = (0.5, 2.5)
"""Seconds between two faults, from and to."""


@register
class Mix(Scenario):
    name = "mix"
    number = 15
    title = "ten thousand mixed tasks and every fault there is, at random, for --minutes"
    sizes = {"short": Size(tasks=200, faults=8, executors=1), "full": Size(tasks=14_500, executors=1)}
    """``tasks`` are calls; about 0.7 of them make a task. ``faults``: 0 for as many as there is time for."""

    def run(self, world: World) -> None:
        start_executors(world)
        world.load.codes = CODES
        seconds = (1 - REST) * world.seconds_left() if world.size.faults == 0 else 6.0
        world.load.start(world.size.tasks, rate=world.size.tasks / seconds * 1.1)
        world.wait_until(any_is_done, "a first task is done")  # the first fault may leave no call a connection
        break_things(world, time.monotonic() + seconds)
        world.load.finish()


def start_executors(world: World) -> None:
    """Start some alone (on PostgreSQL with Django's pool), one behind the proxy, two under a supervisor.

    Those that stand alone wait for no run when they stop.
    """
    settings = None if world.database.has_server else {"THREADS": 2}  # one file has one writer at a time
    pooled = POOLED if world.database.vendor == "postgres" else None
    hasty = {**(settings or {}), "SHUTDOWN_TIMEOUT": 0}
    world.cluster.start_many(world.size.executors, settings=hasty, environment=pooled)
    if world.database.has_server and len(world.database.urls) == 1:
        world.cluster.start("proxied", url=world.proxy.url).wait_until_ready()
    world.cluster.start("team", "--processes=2", settings=settings).wait_until_ready()


def break_things(world: World, until: float) -> None:
    """Inject one fault after the other; of those that last, one at a time."""
    faults = faults_of_mix(world.database.kind)
    going_on: tuple[Fault, float] | None = None
    while time.monotonic() < until and not is_enough(world):
        choices = [fault for fault in faults if not (going_on and fault.lasts)]
        fault = world.random.choices(choices, [one.weight for one in choices])[0]
        if world.inject(fault) and fault.lasts:
            going_on = fault, time.monotonic() + fault.lasts * world.random.uniform(0.2, 1.0)
        world.sleep(world.random.uniform(*PAUSES))
        if going_on and time.monotonic() >= going_on[1]:
            world.heal(going_on[0])
            going_on = None
    if going_on:
        world.heal(going_on[0])


def is_enough(world: World) -> bool:
    return 0 < world.size.faults <= world.tally.faults.total()
